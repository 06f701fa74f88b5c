"""`python -m torchspec.bench quality --python PYTHON`: the benchmark from a shell."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    """Parses the command line, measures, and prints the table."""
    from torchspec.bench import peers
    from torchspec.bench.quality import Options, run

    parser = argparse.ArgumentParser(prog="torchspec bench", description="how often the method is right, measured")
    parser.add_argument("what", choices=["quality"])
    parser.add_argument("--python", required=True, help="an interpreter with torch, measured against itself")
    parser.add_argument("--packages", help="a folder in which the peers are installed for that interpreter")
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--tail-pairs", type=int, default=30)
    parser.add_argument("--busy-pairs", type=int, default=30)
    parser.add_argument("--asked", type=int, default=5, help="comparisons of each peer, work and truth")
    parser.add_argument("--peers", nargs="*", default=list(peers.PEERS), choices=list(peers.PEERS))
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args(arguments)
    options = Options(
        python=told.python,
        out=told.out,
        pairs=told.pairs,
        tail_pairs=told.tail_pairs,
        busy_pairs=told.busy_pairs,
        asked=told.asked,
        peers=tuple(told.peers),
        packages=told.packages,
        seed=told.seed,
    )
    print(run(options, lambda line: print(line, file=sys.stderr, flush=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
