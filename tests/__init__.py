"""The type checker that annotations are held against while tests run: an int may stand for a float (PEP 484)."""

from beartype import BeartypeConf, beartype

typechecked = beartype(conf=BeartypeConf(is_pep484_tower=True))
