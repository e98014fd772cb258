"""Serve a model with llama.cpp's own HTTP servers on loopback, one for text and one for vectors, until stdin ends.

`python -m tests.compat.llama.serve MODEL` prints the addresses of the two, then waits: whoever started it holds the other end of
its stdin, and however he ends, it ends too.
"""

import sys
from typing import Any

import xllamacpp  # type: ignore[import-not-found]

ALIAS = "noise"
SLOTS = 4
SLOT_TOKENS = 4096


def server(path: str, *, embedding: bool) -> Any:
    """Start a server in threads of this process, on a port of its own choice."""
    params = xllamacpp.CommonParams()
    params.model.path = path
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
    servers = [server(sys.argv[1], embedding=embedding) for embedding in (False, True)]
    print(*(one.listening_address for one in servers), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
