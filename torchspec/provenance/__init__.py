"""Provenance: git, lock, pre-registration, keys, signatures, the sealed memo folder and its verification.

Must not judge, decide or render. The heavy libraries (pyHanko, cryptography, GitPython) are imported inside the
functions that use them, so that `check`, `--help` and `--version` load none of them and `compile` loads GitPython only.
"""
