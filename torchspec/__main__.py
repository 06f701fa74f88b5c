"""`python -m torchspec`."""

from torchspec.cli import main

raise SystemExit(main())
