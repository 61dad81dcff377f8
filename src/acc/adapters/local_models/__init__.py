"""A model that runs on this machine, in a llama.cpp server that is started when it is asked."""
