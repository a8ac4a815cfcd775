"""weft train from the command line: what must hold when a run is stopped, killed, resumed, starved or misused.
usage: train.py WEFT_ENGINE TEST
"""
import glob
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

ENGINE = sys.argv[1]
RUN_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "small.toml")


def command(out, *options, run_file=RUN_FILE):
    return [ENGINE, "train", run_file, "--out", out, "--json", *options]


def train(out, *options, code=0, run_file=RUN_FILE, **how):
    done = subprocess.run(command(out, *options, run_file=run_file), capture_output=True, text=True, **how)
    assert done.returncode == code, f"exit code {done.returncode}, expected {code}:\n{done.stderr}"
    return json.loads(done.stdout) if code == 0 else done.stderr


def start(out, *options, run_file=RUN_FILE):
    return subprocess.Popen(command(out, *options, run_file=run_file), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def rows(out, name="metrics.jsonl"):
    with open(os.path.join(out, name)) as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def wait_for_steps(out, count, process):
    while not os.path.exists(os.path.join(out, "metrics.jsonl")) or len(rows(out)) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def losses(out):
    return [(row["step"], row["loss"], row["grad_norm"], row.get("validation_loss")) for row in rows(out)]


def checkpoints(out):
    return sorted(os.listdir(os.path.join(out, "checkpoints")), key=lambda name: int(name.split("-")[1]))


def test_resume(folder):
    whole, parts = folder + "/whole", folder + "/parts"
    expected = train(whole)
    train(parts, "--steps", "10")
    resumed = train(parts, "--resume")
    assert resumed["parameter_hash"] == expected["parameter_hash"]
    assert resumed["validation_loss"] == expected["validation_loss"] and resumed["tokens"] == expected["tokens"]
    assert losses(parts) == losses(whole) and [row["step"] for row in rows(whole)] == list(range(1, 21))
    assert train(parts, "--resume")["parameter_hash"] == expected["parameter_hash"], "a finished run stays as it is"
    longer = train(parts, "--resume", "--steps", "25")
    assert longer["steps"] == 25 and longer["parameter_hash"] == train(folder + "/25", "--steps", "25")["parameter_hash"]


def test_branch(folder):
    trunk, same, other = folder + "/trunk", folder + "/same", folder + "/other"
    expected = train(trunk)
    assert train(same, "--branch", "15", "--from", trunk)["parameter_hash"] == expected["parameter_hash"]
    assert [row["step"] for row in rows(same)] == list(range(16, 21))
    branched = train(other, "--branch", "15", "--from", trunk, "--set", "optimizer.learning_rate=1e-4")
    assert branched["parameter_hash"] != expected["parameter_hash"] and branched["tokens"] == expected["tokens"]
    assert rows(other)[0]["loss"] == rows(same)[0]["loss"], "the same text from the same parameters"
    assert "model.layers" in train(folder + "/bad", "--branch", "15", "--from", trunk, "--set", "model.layers=3", code=2)
    assert "step-7" in train(folder + "/bad", "--branch", "7", "--from", trunk, code=2)
    assert "together" in train(folder + "/bad", "--branch", "7", code=2)
    assert not os.path.exists(folder + "/bad")


def test_kill(folder):
    expected = train(folder + "/whole", "--steps", "60")
    out = folder + "/killed"
    for steps in (7, 23, 41):
        process = start(out, "--steps", "60", *(["--resume"] if os.path.exists(out) else []))
        wait_for_steps(out, steps, process)
        process.kill()
        process.wait()
    assert train(out, "--steps", "60", "--resume")["parameter_hash"] == expected["parameter_hash"]
    assert losses(out) == losses(folder + "/whole")


def test_signals(folder):
    for number, name in ((signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM")):
        out = f"{folder}/{name}"
        process = start(out, "--steps", "100000", "--set", "checkpoint.every=0")
        wait_for_steps(out, 3, process)
        process.send_signal(number)
        _, errors = process.communicate()
        assert process.returncode == 3, errors
        last = rows(out)[-1]["step"]
        assert name in errors and f"step {last}" in errors and checkpoints(out) == [f"step-{last}"]
        assert rows(out, "events.jsonl")[-1]["event"] == "stopped"
        assert train(out, "--resume", "--steps", str(last + 2))["steps"] == last + 2
        assert [row["step"] for row in rows(out)] == list(range(1, last + 3))
    out = folder + "/twice"
    process = start(out, "--steps", "100000", "--set", "train.global_batch=20000")
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == -signal.SIGTERM, "the second signal ends it at once"


def test_folder(folder):
    out = folder + "/run"
    process = start(out, "--steps", "100000")
    wait_for_steps(out, 1, process)
    assert f"in use by process {process.pid}" in train(out, "--resume", code=2)
    process.kill()
    process.wait()
    before = losses(out)
    assert "--resume" in train(out, code=2)
    assert losses(out)[:len(before)] == before
    message = train(out, "--resume", "--steps", "100000", "--set", "optimizer.learning_rate=1", "--set",
                    "model.layers=3", code=2)
    assert "optimizer.learning_rate" in message and "model.layers" in message and "train.steps" not in message
    assert "no config.toml" in train(folder + "/nowhere", "--resume", code=2)
    assert not os.path.exists(folder + "/nowhere")
    assert "positions" in train(folder + "/bad", "--set", "data.context=17", code=2)
    assert "no parameter" in train(folder + "/bad", "--set", 'train.frozen=["layer.*"]', code=2)
    assert not os.path.exists(folder + "/bad"), "a start that fails leaves nothing"


def test_changed_data(folder):
    text, out = folder + "/text.txt", folder + "/run"
    sources = ("--set", f"data.sources={json.dumps([text])}")
    with open(text, "w") as file:
        file.write("some text that repeats itself, " * 200)
    train(out, *sources, "--steps", "10")
    with open(text, "a") as file:
        file.write("text")
    assert "not what the run was trained on" in train(out, *sources, "--resume", code=2)


def test_not_a_number(folder):
    out = folder + "/run"
    message = train(out, "--set", "optimizer.learning_rate=1e30", "--set", "checkpoint.every=1", code=1)
    done = rows(out)[-1]["step"] if rows(out) else 0
    assert f"step {done + 1}" in message and "not a finite number" in message, message
    assert checkpoints(out)[-1] == f"step-{done}", "the step's parameters were not saved"
    assert rows(out, "events.jsonl")[-1]["event"] == "failed"


def test_full_disk(folder):
    out = folder + "/run"
    expected = train(folder + "/whole")
    train(out, "--steps", "5")

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))

    message = train(out, "--resume", code=1, preexec_fn=limit)
    assert "step 10 could not be saved" in message and "step-5" in message, message
    assert checkpoints(out) == ["step-5"], "nothing half-written stays"
    assert train(out, "--resume")["parameter_hash"] == expected["parameter_hash"]


def test_kept_checkpoints(folder):
    out = folder + "/run"
    train(out, "--steps", "40")
    best = min((row["validation_loss"], row["step"]) for row in rows(out) if "validation_loss" in row)[1]
    assert set(checkpoints(out)) == {"step-35", "step-40", f"step-{best}"}


def test_validation(folder):
    """The whole validation part is read once where the last step reads it anyway."""
    lines = {}
    for tokens in (512, 0):
        done = subprocess.run(command(f"{folder}/{tokens}", "--set", f"validation.tokens={tokens}"),
                              capture_output=True, text=True, check=True)
        lines[tokens] = [line for line in done.stderr.splitlines() if "step 20: validation loss" in line]
        loss = json.loads(done.stdout)["validation_loss"]
        assert f"{loss:.4f}" in lines[tokens][-1], (loss, lines)
    assert len(lines[512]) == 2 and len(lines[0]) == 1 and lines[512][-1] == lines[0][0], lines


def test_micro_batches(folder):
    results = {}
    for count in (1, 2, 7, 9):
        out = f"{folder}/{count}"
        train(out, "--set", f"schedule.micro_batches={count}")
        results[count] = rows(out)
    for count, found in results.items():
        for row, one in zip(found, results[1], strict=True):
            assert abs(row["loss"] - one["loss"]) < 2e-6, (count, row, one)
            assert row["tokens"] == one["tokens"]


def test_bf16_and_frozen(folder):
    from safetensors.torch import load_file
    out = folder + "/run"
    train(out, "--set", 'train.precision="bf16"', "--set", 'train.frozen=["embedding.*"]', "--set",
          "checkpoint.initial=true", "--set", "checkpoint.keep=99", "--steps", "100")
    first, last = (load_file(f"{out}/checkpoints/step-{step}/parameters.safetensors") for step in (0, 100))
    for path, value in last.items():
        assert str(value.dtype) == "torch.float32"
        assert value.equal(first[path]) == path.startswith("embedding."), path
    plain = folder + "/plain"
    train(plain, "--set", 'train.frozen=["embedding.*"]', "--steps", "100")
    for row, expected in zip(rows(out), rows(plain), strict=True):
        assert abs(row["loss"] - expected["loss"]) < 0.03, (row, expected)
    assert rows(out)[-1]["loss"] < rows(out)[0]["loss"] - 0.1


def batches(out):
    return {row["step"]: (row["sample_ids"], row["tokens"]) for row in rows(out, "batches.jsonl")}


def test_phases(folder):
    """Seven steps of 4 x 8 between steps of 7 x 16 and of 9 x 16; every sample once, whatever was killed or branched."""
    phases = {"run_file": os.path.join(os.path.dirname(RUN_FILE), "phases.toml")}
    whole, parts, branch = folder + "/whole", folder + "/parts", folder + "/branch"
    expected = train(whole, "--set", "checkpoint.keep=99", **phases)
    read = batches(whole)
    shapes = [(len(read[step][0]), len(read[step][1][0])) for step in range(1, 21)]
    assert shapes == [(7, 16)] * 5 + [(4, 8)] * 7 + [(9, 16)] * 8, shapes
    assert [sample for step in range(1, 21) for sample in read[step][0]] == list(range(7 * 5 + 4 * 7 + 9 * 8))
    rates = [row["learning_rate"] for row in rows(whole)]
    assert rates[:5] == [2e-4, 4e-4, 6e-4, 8e-4, 1e-3] and rates[5:12] == [1e-3] * 7 and rates[19] == 1e-4, rates
    for steps in (3, 8, 14, 20):
        train(parts, "--steps", str(steps), *(["--resume"] if os.path.exists(parts) else []), **phases)
    assert batches(parts) == read
    assert [row["loss"] for row in rows(parts)] == [row["loss"] for row in rows(whole)]

    killed = folder + "/killed"
    for steps in (4, 9):
        process = start(killed, "--set", "train.steps=20", "--set", "checkpoint.every=1",
                        *(["--resume"] if os.path.exists(killed) else []), **phases)
        wait_for_steps(killed, steps, process)
        process.kill()
        process.wait()
    assert train(killed, "--resume", **phases)["parameter_hash"] == expected["parameter_hash"]
    assert batches(killed) == read and [row["step"] for row in rows(killed, "batches.jsonl")] == list(range(1, 21))

    last = ("--set", "phases.2.end=0.5")
    train(branch, "--branch", "10", "--from", whole, *last, **phases)
    assert batches(branch) == {step: read[step] for step in range(11, 21)}, "another decay, the same text"
    assert train(folder + "/same", "--branch", "10", "--from", whole, **phases)["parameter_hash"] == expected["parameter_hash"]
    message = train(folder + "/bad", "--branch", "5", "--from", whole, "--set", "phases.0.global_batch=8", code=2, **phases)
    assert "35 sequences were consumed" in message, message
    message = train(folder + "/bad", "--branch", "10", "--from", whole, "--set", "data.weights=[3.0, 1.0]", code=2, **phases)
    assert "stood at sample" in message, message


def test_muon(folder):
    muon = ("--set", "optimizer.kind=muon", "--set", "optimizer.weight_decay=0.1")
    whole, parts = folder + "/whole", folder + "/parts"
    expected = train(whole, *muon)
    assert rows(whole)[-1]["loss"] < rows(whole)[0]["loss"] - 0.2
    train(parts, *muon, "--steps", "10")
    with open(parts + "/checkpoints/step-10/manifest.json") as file:
        groups = {group["name"]: group for group in json.load(file)["optimizer"]}
    assert (groups["orthogonalised"]["kind"], groups["orthogonalised"]["convention"]) == ("muon", "sum")
    assert groups["decayed"]["kind"] == "adamw" and len(groups["orthogonalised"]["parameters"]) == 14
    assert train(parts, *muon, "--resume")["parameter_hash"] == expected["parameter_hash"]
    branch = ("--branch", "15", "--from", whole, *muon)
    assert "divided by 1 - momentum" in train(folder + "/bad", *branch, "--set", "optimizer.convention=average", code=2)
    assert "is of kind muon" in train(folder + "/bad", "--branch", "15", "--from", whole, code=2)


def test_phases_refused(folder):
    phases = {"run_file": os.path.join(os.path.dirname(RUN_FILE), "phases.toml")}
    out = folder + "/bad"
    for setting, reason in (("phases.2.optimizer.kind=muon", 'phases.2.optimizer.kind is "muon"'),
                            ("phases.2.precision=fp8", 'phases.2.precision is "fp8"'),
                            ("phases.2.precision=bf16", "phases.2.precision"),
                            ("phases.1.optimizer={kind='adamw', weight_decay=0.5}", "phases.1.optimizer.weight_decay"),
                            ("phases.2.weights=[0.0, 0.0]", "phases.2.weights: their sum is 0"),
                            ("phases.1.context=17", "phases.1.context is 17")):
        message = train(out, "--set", setting, code=2, **phases)
        assert reason in message, (setting, message)
    assert not os.path.exists(out)
    train(out, "--set", "phases.2.precision=fp8", "--steps", "12", **phases)


def test_memory(folder):
    message = train(folder + "/run", "--set", "train.global_batch=1000000000", "--set", "schedule.micro_batches=1", code=2)
    assert "GiB" in message and "train.micro_batch = " in message, message
    message = train(folder + "/run", "--set", "model.width=524288", "--set", "model.layers=1000", code=2)
    assert "too large for this machine" in message, message


def test_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    out = folder + "/run"
    process = start(out, "--steps", "100000", "--set", "checkpoint.every=1000")
    wait_for_steps(out, 1100, process)
    time.sleep(3)  # until curves reach the file
    process.kill()
    process.wait()
    # How far the run came by then is the machine's affair.
    newest = max(int(name[5:]) for name in os.listdir(out + "/checkpoints") if name[5:].isdigit())
    train(out, "--resume", "--steps", str(newest + 10))
    curves = EventAccumulator(out, size_guidance={"scalars": 0})
    curves.Reload()
    assert len(glob.glob(out + "/events.out.tfevents.*")) == 2
    for tag, key in (("train/loss", "loss"), ("train/learning_rate", "learning_rate"), ("train/grad_norm", "grad_norm"),
                     ("validation/loss", "validation_loss")):
        expected = [(row["step"], row[key]) for row in rows(out) if key in row]
        found = [(event.step, event.value) for event in curves.Scalars(tag)]
        assert [step for step, _ in found] == [step for step, _ in expected], tag
        assert all(abs(a - b) <= 1e-6 * abs(b) for (_, a), (_, b) in zip(found, expected)), tag


with tempfile.TemporaryDirectory() as temporary:
    globals()["test_" + sys.argv[2]](temporary)
