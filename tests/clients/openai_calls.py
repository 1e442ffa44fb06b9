"""Calls a gateway by the official package openai. Arguments: base URL and key. Prints what fails."""

import io
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key=sys.argv[2], max_retries=0)
failures = 0


def check(what, holds):
    global failures
    if not holds:
        failures += 1
    print("ok" if holds else "NOT OK", what)


def fails(what, error, call):
    try:
        call()
    except error:
        check(what, True)
    else:
        check(what, False)


# embeddings: the package asks for base64 unless told otherwise
texts = ["one text", "another"]
encoded = client.embeddings.create(model="all-MiniLM-L6-v2", input=texts)
floats = client.embeddings.create(model="all-MiniLM-L6-v2", input=texts, encoding_format="float")
check("two embeddings", len(encoded.data) == 2 and encoded.data[1].index == 1)
check("of 384 dimensions", len(floats.data[0].embedding) == 384)
differences = zip(encoded.data[0].embedding, floats.data[0].embedding)
check("base64 and float are the same", max(abs(a - b) for a, b in differences) < 1e-6)
check("models", "rag" in [model.id for model in client.models.list()])
fails("an unknown model", openai.NotFoundError,
      lambda: client.embeddings.create(model="none", input="x"))
fails("an empty input", openai.BadRequestError,
      lambda: client.embeddings.create(model="all-MiniLM-L6-v2", input=""))

# vector stores
store = client.vector_stores.create(name="Support FAQ", metadata={"team": "help"})
check("the name of a store", store.name == "Support FAQ" and store.metadata["team"] == "help")
text = b"# Keys\n\nSigning keys are rotated every 90 days.\n"
file = client.vector_stores.files.upload_and_poll(
    vector_store_id=store.id, file=("keys.md", io.BytesIO(text)),
    attributes={"owner": "security", "year": 2024, "open": True})
check("a file is complete", file.status == "completed")
lunch = client.files.create(file=("lunch.md", io.BytesIO(b"Lunch is at noon.")),
                            purpose="assistants")
batch = client.vector_stores.file_batches.create(vector_store_id=store.id, file_ids=[lunch.id])
check("a batch is complete", batch.status == "completed" and batch.file_counts.completed == 1)
files = client.vector_stores.files.list(vector_store_id=store.id)
check("files are listed", {f.id for f in files} == {file.id, lunch.id})
one = client.vector_stores.files.retrieve(file.id, vector_store_id=store.id)
given = {"owner": "security", "year": 2024, "open": True}
check("attributes", given.items() <= one.attributes.items())
content = client.vector_stores.files.content(file.id, vector_store_id=store.id)
check("the text of a file", "90 days" in content.data[0].text)
for kind, key, value, number in [
    ("eq", "owner", "security", 1), ("ne", "owner", "security", 1), ("gt", "year", 2023, 1),
    ("gte", "year", 2024, 1), ("lt", "year", 2024, 0), ("lte", "year", 2024, 1),
    ("in", "owner", ["security", "x"], 1), ("nin", "owner", ["security"], 1),
    ("eq", "open", True, 1),
]:
    found = client.vector_stores.search(
        store.id, query="how often are keys rotated?",
        filters={"type": "and", "filters": [{"type": kind, "key": key, "value": value}]})
    check(f"filter {key} {kind}", len(list(found)) == number)
found = client.vector_stores.search(store.id, query=["keys", "rotation"], max_num_results=1,
                                    ranking_options={"score_threshold": 0.1})
check("a search", [r.file_id for r in found] == [file.id])
check("a store is updated", client.vector_stores.update(store.id, name="FAQ").name == "FAQ")
check("stores are listed", store.id in [s.id for s in client.vector_stores.list()])
check("files are counted", client.vector_stores.retrieve(store.id).file_counts.completed == 2)
client.vector_stores.files.delete(lunch.id, vector_store_id=store.id)
check("a file is removed", len(list(client.vector_stores.files.list(store.id))) == 1)

# answers
messages = [{"role": "user", "content": "how often are keys rotated?"}]
model = f"rag/{store.id}"
completion = client.chat.completions.create(model=model, messages=messages)
answer = completion.choices[0].message.content
check("a chat completion", "[1]" in answer and completion.usage.total_tokens > 0)
chunks = list(client.chat.completions.create(model=model, messages=messages, stream=True,
                                             stream_options={"include_usage": True}))
pieces = [c.choices[0].delta.content or "" for c in chunks if c.choices]
check("a stream of chunks", "".join(pieces) == answer and len(pieces) > 3)
check("its tokens", chunks[-1].usage.total_tokens > 0)
check("a response", client.responses.create(model=model, input="keys?").output_text == answer)
with client.responses.stream(model=model, input="keys?") as events:
    deltas = [e.delta for e in events if e.type == "response.output_text.delta"]
    check("a stream of events", events.get_final_response().output_text == "".join(deltas))

fails("a wrong key", openai.AuthenticationError,
      lambda: openai.OpenAI(base_url=sys.argv[1], api_key="x", max_retries=0).models.list())
check("a store is deleted", client.vector_stores.delete(store.id).deleted)
fails("and gone", openai.NotFoundError, lambda: client.vector_stores.retrieve(store.id))
sys.exit(1 if failures else 0)
