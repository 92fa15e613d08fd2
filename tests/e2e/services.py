"""A reward model that others serve, made up: healthy, slow, flapping, wrong-typed or dead on demand."""

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Service:
    """POST answers in SGLang's shape; a text with "Paris" or "good" in it is worth more."""

    def __init__(self, port=0):
        self.mode, self.asked, self.bodies = "healthy", 0, []
        self.lock = threading.Lock()
        self.server = None
        self.port = port
        self.open()

    def open(self):
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                service.answer(self)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *_):  # a client that gave up
                pass

        self.server = Server(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        if self.server:
            self.server.shutdown()
            self.server.socket.shutdown(socket.SHUT_RDWR)
            self.server.server_close()
            self.server = None

    def answer(self, request):
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        with self.lock:
            self.asked += 1
            number = self.asked
            self.bodies.append(json.loads(body))
            del self.bodies[:-50]
        if self.mode == "dead":  # a connection from before: gone like the rest
            request.close_connection = True
            return None
        if self.mode == "slow" or (self.mode == "some slow" and b"slow" in body):
            time.sleep(30)
        if self.mode == "flapping" and number % 2:
            return self.send(request, 500, b"{}")
        if self.mode == "wrong-typed":
            return self.send(request, 200, b'{"embedding": "high"}')
        text = json.loads(body).get("text", "")
        value = 2.0 if "Paris" in text or "good" in text else -2.0
        return self.send(request, 200, json.dumps([{"embedding": [value]}]).encode())

    @staticmethod
    def send(request, status, body):
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
