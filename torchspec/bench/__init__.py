"""`torchspec bench quality`: how often the method is right, on this machine, beside other tools on the same work.

Measures for real: workers of an emitted harness, pairs of fresh processes, planted changes. Not part of any run, and
nothing of the tool imports it. `python -m torchspec.bench --help` says how it is called.
"""
