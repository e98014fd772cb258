"""Serve the two models with llama.cpp's own HTTP servers on loopback until stdin ends: text, calls of tools, vectors.

`python -m tests.compat.llama.serve DIRECTORY` writes the models there, prints the addresses of the three, then waits: whoever
started it holds the other end of its stdin, and however he ends, it ends too.
"""

import sys
from pathlib import Path
from typing import Any

import xllamacpp  # type: ignore[import-not-found]

from tests.compat.llama.model import model

ALIAS = "noise"
SLOTS = 4
SLOT_TOKENS = 4096


def server(path: Path, *, embedding: bool = False) -> Any:
    """Start a server in threads of this process, on a port of its own choice."""
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {ALIAS}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * SLOT_TOKENS
    params.n_predict = 512
    params.warmup = False
    params.embedding = embedding
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN if embedding else params.pooling_type
    params.verbosity = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    return xllamacpp.Server(params)


def main() -> None:
    """Serve."""
    noise, eager = Path(sys.argv[1], "noise.gguf"), Path(sys.argv[1], "eager.gguf")
    noise.write_bytes(model())
    eager.write_bytes(model(eager=True))
    servers = [server(noise), server(eager), server(noise, embedding=True)]
    print(*(one.listening_address for one in servers), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
