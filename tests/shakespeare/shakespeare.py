"""The recipe that the README begins with reaches its loss: usage: shakespeare.py WEFT"""
import json
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run([sys.argv[1], "train", "recipes/shakespeare.toml", "--out", folder + "/run", "--json"],
                          stdout=subprocess.PIPE, text=True, check=True)
summary = json.loads(done.stdout)
print(summary)
assert summary["steps"] == 2000
assert summary["validation_loss"] <= 1.92, "the loss of nanoGPT's own setting is 1.905 to 1.916"
