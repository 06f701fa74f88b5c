"""torchspec decides, workload by workload and backend by backend, whether a new PyTorch may run a team's work.

This module holds the version only: importing it must stay cheap (`torchspec --version` imports nothing heavy).
"""

__version__ = "0.1.0"
