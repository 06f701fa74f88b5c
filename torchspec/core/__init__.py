"""The ground floor: diagnostics, codes, canonical JSON and digests, resources.

Imports nothing of torchspec above it.
"""
