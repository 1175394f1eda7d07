"""A small API server of Kubernetes, whose pods are processes of this machine.

It answers what Spark's driver asks: it creates, lists, watches and deletes pods and config maps. A pod
runs its container's command through the entrypoint of the image in `deploy/docker`. It schedules no pod
while `capacity` is used up, and reports the end of a process as the phase of its pod. With a token, it
serves HTTPS, and refuses requests without the token.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psutil
import pyspark

ENTRYPOINT = Path(__file__).parents[2] / "deploy" / "docker" / "entrypoint.sh"
Json = dict[str, Any]


def matches(labels: Json, selector: str) -> bool:
    """Return whether labels match a selector of Kubernetes: `a=b`, `a!=b`, `a in (b, c)`, `a`, `!a`."""
    parts, depth, start = [], 0, 0
    for place, character in enumerate(f"{selector},"):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(selector[start:place].strip())
            start = place + 1
    for part in filter(None, parts):
        if "!=" in part:
            name, _, value = part.partition("!=")
            met = labels.get(name.strip()) != value.strip()
        elif "=" in part:
            name, _, value = part.replace("==", "=").partition("=")
            met = labels.get(name.strip()) == value.strip()
        elif " in " in part:
            name, _, values = part.partition(" in ")
            met = labels.get(name.strip()) in [each.strip() for each in values.strip(" ()").split(",")]
        else:
            met = (part.lstrip("!") in labels) != part.startswith("!")
        if not met:
            return False
    return True


class Cluster:
    """The objects of one namespace, and the processes of its pods.

    Attributes:
        capacity: number of pods that may run at once; further ones are pending.
        deleted: names of the deleted pods.
        settings: settings with which Spark reaches and trusts the API server.
        refused: number of requests without the token.
    """

    def __init__(self, folder: Path, capacity: int = 8, token: str = "") -> None:
        self._folder = folder
        self.token = token
        self.refused = 0
        self._lock = threading.Condition()
        self._objects: dict[tuple[str, str], Json] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._events: list[tuple[str, Json]] = []
        self._closed = False
        self.capacity = capacity
        self.deleted: list[str] = []
        cluster = self

        class Handler(_Handler):
            of = cluster

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.settings: dict[str, str] = {}
        if token:
            certificate = _certificate(folder)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, folder / "key.pem")
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            at = "spark.kubernetes.authenticate"
            self.settings = {f"{at}.caCertFile": str(certificate), f"{at}.oauthToken": token}
        scheme = "https" if token else "http"
        self.url = f"k8s://{scheme}://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """End all processes, and the server."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        for process in self._processes.values():
            _kill(process)
        self._server.shutdown()
        self._server.server_close()

    # --- for tests ------------------------------------------------------------------------------------

    def pods(self, phase: str = "") -> list[Json]:
        """Return the pods, in the order in which they were created; those in `phase` if it is given."""
        with self._lock:
            pods = [each for (kind, _), each in self._objects.items() if kind == "pods"]
        return [pod for pod in pods if phase in ("", pod["status"]["phase"])]

    def names(self, phase: str = "") -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods(phase)]

    def lose(self, name: str, reason: str) -> None:
        """Kill the pod's process, as the kernel (OOMKilled) or the node (Evicted) does."""
        with self._lock:
            self._pod(name)["reason"] = reason
        _kill(self._processes[name])

    def drain(self, name: str) -> None:
        """Delete the pod as a drained node does: SIGTERM, and after the grace period SIGKILL. Then the
        object is gone."""
        with self._lock:
            self._pod(name)["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self._changed("MODIFIED", self._pod(name))
        self._processes[name].send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._processes[name].wait(30)
        self.delete("pods", name)

    def log(self, name: str) -> str:
        """Return the output of a pod's container."""
        return (self._folder / f"{name}.log").read_text()

    # --- for the driver -------------------------------------------------------------------------------

    def create(self, kind: str, made: Json) -> Json:
        """Store an object. A pod is scheduled, or is pending."""
        made["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": "2026-01-01T00:00:00Z"}
        with self._lock:
            self._objects[kind, made["metadata"]["name"]] = made
            if kind == "pods":
                made["status"] = {"phase": "Pending"}
                self._changed("ADDED", made)
        self.schedule()
        return made

    def schedule(self) -> None:
        """Start pending pods, as far as there is capacity."""
        with self._lock:
            phases = [pod["status"]["phase"] for pod in self.pods()]
            free = self.capacity - phases.count("Running")
            for pod in self.pods("Pending")[: max(free, 0)]:
                self._start(pod)

    def find(self, kind: str, selector: str) -> list[Json]:
        """Return the objects whose labels match the selector."""
        with self._lock:
            found = [each for (of, _), each in self._objects.items() if of == kind]
        return [each for each in found if matches(each["metadata"].get("labels", {}), selector)]

    def get(self, kind: str, name: str) -> Json | None:
        with self._lock:
            return self._objects.get((kind, name))

    def patch(self, kind: str, name: str, change: Json) -> Json | None:
        """Merge the labels of the change into an object."""
        with self._lock:
            found = self._objects.get((kind, name))
            if found is not None:
                found["metadata"].setdefault("labels", {}).update(
                    change.get("metadata", {}).get("labels", {})
                )
                self._changed("MODIFIED", found)
        return found

    def delete(self, kind: str, name: str) -> None:
        """Remove an object, and kill its process."""
        with self._lock:
            found = self._objects.pop((kind, name), None)
            if found is not None and kind == "pods":
                self.deleted.append(name)
                self._changed("DELETED", found)
        if found is not None and kind == "pods" and name in self._processes:
            _kill(self._processes[name])
        self.schedule()

    def events(self, selector: str) -> Iterator[Json]:
        """Yield each change of a pod from now on, until the server is closed."""
        with self._lock:
            seen = len(self._events)
        while True:
            with self._lock:
                while len(self._events) == seen and not self._closed:
                    self._lock.wait(1)
                if self._closed:
                    return
                kind, changed = self._events[seen]
            seen += 1
            if matches(changed["metadata"].get("labels", {}), selector):
                yield {"type": kind, "object": changed}

    # --- pods -----------------------------------------------------------------------------------------

    def _pod(self, name: str) -> Json:
        return self._objects["pods", name]

    def _changed(self, kind: str, changed: Json) -> None:
        changed["metadata"]["resourceVersion"] = str(len(self._events) + 1)
        self._events.append((kind, json.loads(json.dumps(changed))))
        self._lock.notify_all()

    def _start(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        container = pod["spec"]["containers"][0]
        fields = {"status.podIP": "127.0.0.1", "metadata.name": name}
        environment = {
            each["name"]: each.get("value") or fields.get(_field(each), "") for each in container["env"]
        }
        environment["SPARK_CONF_DIR"] = str(self._folder)
        with open(self._folder / f"{name}.log", "wb") as output:
            process = subprocess.Popen(
                ["bash", str(ENTRYPOINT), *container["args"]],
                env={
                    **os.environ,
                    "SPARK_HOME": str(Path(pyspark.__path__[0])),
                    "PYSPARK_PYTHON": sys.executable,
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    **environment,
                },
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes[name] = process
        pod["status"] = {
            "phase": "Running",
            "podIP": "127.0.0.1",
            "containerStatuses": [
                _state(container, {"running": {"startedAt": "2026-01-01T00:00:00Z"}})
            ],
        }
        self._changed("MODIFIED", pod)
        threading.Thread(target=self._watch, args=(pod, container, process), daemon=True).start()

    def _watch(self, pod: Json, container: Json, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        code = code if code >= 0 else 128 - code
        with self._lock:
            reason = pod.pop("reason", "Error" if code else "Completed")
            ended = {"terminated": {"exitCode": code, "reason": reason}}
            pod["status"] = {
                "phase": "Failed" if code else "Succeeded",
                "reason": reason,
                "containerStatuses": [_state(container, ended)],
            }
            if ("pods", pod["metadata"]["name"]) in self._objects:
                self._changed("MODIFIED", pod)
        if not self._closed:
            self.schedule()


def _certificate(folder: Path) -> Path:
    certificate = folder / "ca.pem"
    made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(certificate)]
    subprocess.run(["openssl", *made.split(), *names, *files], check=True, capture_output=True)
    return certificate


def _field(variable: Json) -> str:
    return str(variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", ""))


def _state(container: Json, state: Json) -> Json:
    return {"name": container["name"], "state": state, "image": "", "imageID": "", "ready": True}


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(psutil.NoSuchProcess):
        main = psutil.Process(process.pid)
        for each in [main, *main.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
    process.wait(60)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    of: Cluster

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        if self.of.token and self.headers.get("Authorization") != f"Bearer {self.of.token}":
            self.of.refused += 1
            self._answer(401, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 401})
            return False
        return True

    def do_GET(self) -> None:
        kind, name, asked = self._asked()
        selector = asked.get("labelSelector", "")
        if self.headers.get("Upgrade"):
            # The client tries a web socket first. After this answer it watches over HTTP.
            self._answer(200, {})
        elif asked.get("watch") == "true":
            self._watched(selector)
        elif name:
            found = self.of.get(kind, name)
            self._answer(404 if found is None else 200, found or _NOT_FOUND)
        else:
            items = self.of.find(kind, selector)
            listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "0"}}
            self._answer(200, {**listed, "items": items})

    def do_POST(self) -> None:
        kind, _, _ = self._asked()
        self._answer(201, self.of.create(kind, self._body()))

    def do_PATCH(self) -> None:
        kind, name, _ = self._asked()
        found = self.of.patch(kind, name, self._body())
        self._answer(404 if found is None else 200, found or _NOT_FOUND)

    def do_DELETE(self) -> None:
        kind, name, asked = self._asked()
        self._body()
        names = [name]
        if not name:
            items = self.of.find(kind, asked.get("labelSelector", ""))
            names = [each["metadata"]["name"] for each in items]
        for each in names:
            self.of.delete(kind, each)
        self._answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def _asked(self) -> tuple[str, str, dict[str, str]]:
        """Return the kind, the name and the query of /api/v1/namespaces/NAMESPACE/KIND/NAME."""
        url = urlsplit(self.path)
        parts = [*url.path.strip("/").split("/"), "", ""]
        return parts[4], parts[5], {name: values[0] for name, values in parse_qs(url.query).items()}

    def _body(self) -> Json:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        read = json.loads(data or b"{}")
        return read if isinstance(read, dict) else {}

    def _answer(self, code: int, answer: Json) -> None:
        data = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _watched(self, selector: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with suppress(OSError):
            for event in self.of.events(selector):
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                self.wfile.flush()

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


_NOT_FOUND: Json = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}
