"""The operator's whole interface: one YAML file, read with every error at once, compiled to what requests are decided by.

`load` reads and checks, `compile_catalogue` turns a sound configuration into the corridor's snapshot. Only the roots import this.
"""

from gateway.config.carried import Edition, decode_edition, encode_edition
from gateway.config.compile import compile_catalogue
from gateway.config.files import Files
from gateway.config.load import Loaded, load
from gateway.config.problems import ConfigErrors
from gateway.config.structs import Config

__all__ = [
    "Config",
    "ConfigErrors",
    "Edition",
    "Files",
    "Loaded",
    "compile_catalogue",
    "decode_edition",
    "encode_edition",
    "load",
]
