"""Documents of an index of adopted vectors are put over HTTP with their vectors."""

import numpy as np

from swiftlet.index.building.adopt import adopt
from tests.service.conftest import running

KEY = "the-write-key-of-the-tests"
BEARER = {"Authorization": f"Bearer {KEY}"}


def test_documents_are_put_with_vectors_and_refused_without(tmp_path):
    vectors = np.eye(4, dtype=np.float32)
    adopt(vectors, tmp_path / "index", texts=[{"_id": f"d{n}", "text": "a"} for n in range(4)])
    new = {"_id": "new", "text": "another one", "embedding": [0.0, 3.0, 3.0, 0.0]}
    with running(tmp_path / "index", encoder="", write_keys=KEY) as server:
        client = server.client()

        def put(*documents: object) -> tuple[int, str]:
            body = {"documents": documents}
            answer = client.put("/documents", json=body, headers=BEARER)
            return answer.status_code, answer.text

        assert put(new)[0] == 200
        hits = client.post("/search", json={"embedding": [0, 1, 1, 0], "top_k": 1}).json()["hits"]
        assert (hits[0]["document_id"], round(hits[0]["score"], 5)) == ("new", 1)
        status, problem = put({"_id": "text", "text": "a text"})
        assert status == 409
        assert "its vector in the field" in problem
        status, problem = put(new, {**new, "_id": "wide", "embedding": [1.0] * 5})
        assert status == 422
        assert "documents[1]" in problem
        assert "5 numbers where 4 are expected" in problem
