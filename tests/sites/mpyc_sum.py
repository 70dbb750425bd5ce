"""Add the numbers of several parties by MPyC, each of which is a process: python mpyc_sum.py -M3 FOLDER."""

import json
import sys
from pathlib import Path

PRIME = 2**89 - 1


async def main():
    from mpyc.runtime import mpc

    folder = Path(sys.argv[-1])
    async with mpc:
        own = json.loads((folder / "noisy.json").read_text())[mpc.pid]
        field = mpc.SecFld(PRIME)
        total, *others = mpc.input([field(number % PRIME) for number in own])
        for other in others:
            total = mpc.vector_add(total, other)
        opened = [int(number) for number in await mpc.output(total)]
        if mpc.pid == 0:
            signed = [number - PRIME if number > PRIME // 2 else number for number in opened]
            (folder / "sum.json").write_text(json.dumps(signed))


if __name__ == "__main__":
    from mpyc.runtime import mpc

    mpc.run(main())
