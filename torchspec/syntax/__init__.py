"""From bytes to AST, and from text to its canonical form. Knows no word's meaning; must not read files or print."""
