"""Plan to harness files: one self-contained Python file a backend. Must not import or run the harness itself."""
