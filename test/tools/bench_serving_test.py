#!/usr/bin/env python3
"""Goal: tools/bench_serving asks every server the same, sees what it answers, and counts it right.
Method: its closed loop at a server of sockets that answers as it is told (whole, in odd pieces, wrong,
not at all); rows of answers made up here; no model, no time that a result depends on.
"""
import http.server
import json
import pathlib
import socketserver
import sys
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True

import bench_serving_client as client  # noqa: E402
import bench_serving_numbers as numbers  # noqa: E402
import bench_serving_report as report  # noqa: E402
import bench_serving_trace as trace  # noqa: E402


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers by the first word of the prompt."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):  # noqa: N802
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.bodies.append(body)
        kind = body["prompt"].split()[0]
        if kind == "refused":
            self.send_error(400, "no")
            return
        count = body["max_tokens"] - (kind == "short")
        events = [{"choices": [{"text": f"t{i} ", "finish_reason": None}]} for i in range(count)]
        events.append({"choices": [{"text": "", "finish_reason": "length"}]})
        events.append({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": count,
                                                "prompt_tokens_details": {"cached_tokens": 3}}})
        text = "".join(f"data: {json.dumps(e)}\n\n" for e in events) + ": ping\n\ndata: [DONE]\n\n"
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        size = 5 if kind == "pieces" else len(text)
        if kind == "torn":
            text = text[:60]
        for at in range(0, len(text), size):
            piece = text[at:at + size].encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        if kind != "torn":
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def log_message(self, *words):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    bodies, lock = None, threading.Lock()


class ClosedLoop(unittest.TestCase):
    def setUp(self):
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.bodies = []
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def ask(self, sessions, clients=2):
        return client.run(self.server.server_address[1], sessions, clients)["answers"]

    @staticmethod
    def request(prompt):
        return {"name": prompt, "prompt": prompt, "answer_tokens": 4}

    def test_answers_whole_and_in_pieces(self):
        for answer in self.ask([[self.request("whole")], [self.request("pieces")]]):
            self.assertNotIn("error", answer)
            self.assertEqual(answer["text"], "t0 t1 t2 t3 ")
            self.assertEqual((answer["prompt_tokens"], answer["tokens"], answer["cached"]), (7, 4, 3))
            self.assertLessEqual(answer["ttft"], answer["ended"])

    def test_what_is_not_an_answer_is_an_error(self):
        for kind, said in (("refused", "status 400"), ("short", "3 tokens of 4"),
                           ("torn", "IncompleteReadError")):
            (answer,) = self.ask([[self.request(kind)]], 1)
            self.assertIn(said, answer["error"])
        self.server.shutdown()
        self.server.server_close()
        (answer,) = self.ask([[self.request("whole")]], 1)
        self.assertIn("ConnectionRefusedError", answer["error"])

    def test_a_session_waits_for_its_answers(self):
        self.ask([[self.request("whole 1"), self.request("whole 2")]], 3)
        self.assertEqual([b["prompt"] for b in self.server.bodies], ["whole 1", "whole 2"])
        body = self.server.bodies[0]
        self.assertEqual((body["temperature"], body["ignore_eos"], body["stream"]), (0, True, True))


class Trace(unittest.TestCase):
    def test_the_same_for_everybody_and_another_each_round(self):
        for workload in trace.WORKLOADS + trace.QUICK:
            for clients, count in workload.requests.items():
                first = trace.sessions(workload, 0, clients)
                self.assertEqual(first, trace.sessions(workload, 0, clients))
                self.assertEqual(sum(map(len, first)), count)
                self.assertGreaterEqual(len(first), clients)
                prompts = [r["prompt"] for session in first for r in session]
                self.assertEqual(len(set(prompts)), count)
                others = [r["prompt"] for s in trace.sessions(workload, 1, clients) for r in s]
                self.assertFalse(set(prompts) & set(others))

    def test_only_what_a_workload_says_is_shared(self):
        for workload in trace.WORKLOADS:
            sessions = trace.sessions(workload, 0, 4)
            a, b = sessions[0][0]["prompt"].split(), sessions[1][0]["prompt"].split()
            same = next(i for i, (x, y) in enumerate(zip(a, b)) if x != y)
            self.assertLess(abs(same - workload.shared_words), 5)
            for before, after in zip(sessions[0], sessions[0][1:]):
                self.assertTrue(after["prompt"].startswith(before["prompt"]))


def load(seconds, *answers):
    return {"seconds": seconds, "answers": [
        {"name": str(i), "text": "same here", "prompt_tokens": 100, "cached": 50, **answer}
        for i, answer in enumerate(answers)]}


class Numbers(unittest.TestCase):
    workload = trace.Workload("w", "made up", 10, {16: 2}, limit_ttft=1.0, limit_tpot=0.1,
                              to_llama={16: 1.5})

    def test_rates_limits_and_lines(self):
        quick = {"ttft": 0.5, "ended": 1.5, "tokens": 11}     # 0.1 s a token: within
        slow = {"ttft": 0.5, "ended": 2.5, "tokens": 11}      # 0.2 s a token: not
        failed = {"error": "why"}
        ours = [load(2.0, quick, quick)]
        theirs = [load(4.0, quick, slow), load(4.0, slow, failed)]
        row = numbers.row_of(self.workload, 16, {"quire": ours, "llama": theirs})
        self.assertEqual(row["engines"]["quire"]["tok_s"], 111.0)
        self.assertEqual(row["engines"]["quire"]["goodput"], 1.0)
        self.assertEqual(row["engines"]["quire"]["cached"], 0.5)
        self.assertEqual(row["engines"]["llama"]["goodput"], 0.125)
        self.assertEqual((row["engines"]["llama"]["failed"], row["engines"]["llama"]["errors"]),
                         (1, ["why"]))
        self.assertEqual(row["ratios"]["llama"]["tok_s"], 2.0)
        self.assertEqual(row["ratios"]["llama"]["tpot_p50"], 2.0)
        self.assertEqual(row["alike"]["llama"], 1.0)
        self.assertEqual(row["lines"][0], {"to": "llama", "what": "tok_s", "least": 1.5, "ratio": 2.0})
        self.assertIn("llama.cpp tokens/s 2.00 of 1.5 met", report.lines(row))

    def test_no_answer_is_no_number(self):
        answer = {"ttft": 0.5, "ended": 1.5, "tokens": 11}
        row = numbers.row_of(self.workload, 16, {"quire": [load(2.0, {"error": "gone"})],
                                                 "llama": [load(2.0, answer)],
                                                 "openvino": [load(2.0, answer)]})
        self.assertIn("**missed**", report.lines(row))
        self.assertEqual([line["ratio"] for line in row["lines"] if line["what"] == "tok_s"], [0, 0])
        self.assertEqual(row["ratios"]["llama"]["goodput"], 0.0)
        self.assertIn("1 failed", report.table([row]))


if __name__ == "__main__":
    unittest.main()
