"""A small program to try pct with: it reads lines of JSON, finds their words and compresses them."""

import json
import re
import zlib


def parse(text):
    return [json.loads(line) for line in text.splitlines()]


def words(rows):
    return re.findall(r"\w+", " ".join(row["text"] for row in rows))


def pack(found):
    return zlib.compress(" ".join(sorted(found)).encode())


def main():
    line = json.dumps({"id": 7, "text": "the quick brown fox jumps over the lazy dog " * 8})
    print(sum(len(pack(words(parse("\n".join([line] * 4000))))) for _ in range(10)))


main()
