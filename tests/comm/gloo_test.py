"""Ranks as processes over gloo: every operation against its closed form, bit by bit, and what happens when a rank fails.

    gloo_test.py WORKER
"""

import os
import signal
import socket
import subprocess
import sys
import time
import unittest

WORKER = ""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(size, scenario, timeout_ms):
    port = str(free_port())
    ranks = []
    for rank in range(size):
        environment = dict(os.environ, WEFT_RANK=str(rank), WEFT_RANKS=str(size), WEFT_ADDRESS="127.0.0.1", WEFT_PORT=port,
                           OMP_NUM_THREADS="1")
        ranks.append(subprocess.Popen([WORKER, scenario, str(timeout_ms)], env=environment, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True))
    return ranks


class Gloo(unittest.TestCase):
    def finish(self, ranks, seconds):
        """(exit code, standard output, standard error) of each; none may take longer."""
        end = time.monotonic() + seconds
        results = []
        try:
            for rank in ranks:
                output, errors = rank.communicate(timeout=max(0.1, end - time.monotonic()))
                results.append((rank.returncode, output, errors))
        finally:
            for rank in ranks:
                rank.kill()
        return results

    def check_others(self, results, failed, words, codes=(1,)):
        for rank, (code, _, errors) in enumerate(results):
            if rank == failed:
                continue
            self.assertIn(code, codes, errors)
            for word in words:
                self.assertIn(word, errors, f"rank {rank}")

    def test_every_operation_is_what_threads_give(self):
        for size in (2, 3, 4):
            for code, output, errors in self.finish(start(size, "calls", 60_000), 120):
                self.assertEqual(code, 0, errors)
                self.assertIn(f"all of {size}: 0 wrong", output)

    def test_ranks_meet_at_the_launchers_socket(self):
        result = subprocess.run([WORKER, "launch", "3"], capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("all of 3: 0 wrong", result.stdout)

    def test_a_rank_that_skips_a_call(self):
        results = self.finish(start(3, "skip", 20_000), 15)
        self.check_others(results, None, ["group all", "rank 0 calls all_reduce (sum) of 100 f32 \"gradient\"",
                                          "rank 1 calls barrier \"step\""])

    def test_a_rank_with_another_size(self):
        results = self.finish(start(3, "size", 20_000), 15)
        self.check_others(results, None, ["group all", "rank 0 calls all_reduce (sum) of 100 f32", "rank 1 calls all_reduce (sum) of 99 f32"])

    def test_a_rank_that_throws(self):
        results = self.finish(start(3, "throw", 20_000), 15)
        self.assertEqual(results[1][0], 2)
        self.check_others(results, 1, ["all_reduce", "group all", "rank 1: left because of an error of its own"])

    def test_a_rank_that_aborts(self):
        results = self.finish(start(3, "abort", 20_000), 15)
        self.check_others(results, 1, ["all_reduce", "group all", "rank 1: the disk is full"])

    def test_a_rank_that_ends_too_early(self):
        results = self.finish(start(3, "end", 20_000), 15)
        self.check_others(results, 1, ["all_reduce", "group all", "rank 1 ended"])

    def in_a_loop(self, timeout_ms):
        ranks = start(3, "loop", timeout_ms)
        for rank in ranks:
            self.assertEqual(rank.stdout.readline(), "looping\n")
        time.sleep(0.3)
        return ranks

    def test_a_killed_rank(self):
        for killed in (0, 1):
            ranks = self.in_a_loop(20_000)
            ranks[killed].send_signal(signal.SIGKILL)
            results = self.finish(ranks, 10)
            self.check_others(results, killed, ["all_reduce", "\"gradient\"", "group all", f"rank {killed} ended"])

    def test_a_stopped_rank(self):
        for stopped in (0, 1):
            ranks = self.in_a_loop(2_000)
            ranks[stopped].send_signal(signal.SIGSTOP)
            start_of_wait = time.monotonic()
            try:
                others = [rank for number, rank in enumerate(ranks) if number != stopped]
                results = [(rank.wait(timeout=10), "", rank.stderr.read()) for rank in others]
            finally:
                ranks[stopped].kill()
                self.finish(ranks, 5)
            self.assertGreater(time.monotonic() - start_of_wait, 1.5)
            self.check_others(results, None, ["all_reduce", "\"gradient\"", "group all", f"waited 2 s for rank {stopped}"])

    def test_a_rank_that_never_comes(self):
        ranks = start(3, "calls", 2_000)
        ranks[2].kill()
        results = self.finish(ranks, 20)
        self.check_others(results, 2, ["group all", "ranks 0, 1, 2", "did not all connect within 2 s"])

    def test_a_port_in_use(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = str(other.getsockname()[1])
            environment = dict(os.environ, WEFT_RANK="0", WEFT_RANKS="2", WEFT_ADDRESS="127.0.0.1", WEFT_PORT=port)
            result = subprocess.run([WORKER, "calls", "5000"], env=environment, capture_output=True, text=True, timeout=20)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(f"port {port} of 127.0.0.1 is in use", result.stderr)


if __name__ == "__main__":
    WORKER = sys.argv.pop(1)
    unittest.main()
