"""Evaluate, build and connect agents whose memory stays bounded."""
