"""The wires of providers that are asked without a library: one file for each protocol."""
