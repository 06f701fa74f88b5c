"""Named by the cases; never run by them."""


def build() -> None:
    raise NotImplementedError
