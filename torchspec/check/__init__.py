"""From AST to a checked, typed spec: names, structure, units and types, controls, policy. Must not measure anything."""
