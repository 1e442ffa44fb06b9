"""Documentation search: a page, a search, and answers over one collection."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Query, Request
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from rag_postgresql import RagError, connect_async

COLLECTION = "documentation"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with await connect_async() as app.state.rag:  # PGHOST, PGUSER, PGDATABASE ...
        yield


app = FastAPI(title="Documentation search", lifespan=lifespan)
Question = Annotated[str, Query(min_length=1, max_length=1000)]


@app.get("/")
async def page() -> FileResponse:
    return FileResponse(Path(__file__).with_name("index.html"))


@app.get("/api/search")
async def search(request: Request, q: Question) -> list[dict]:
    hits = await request.app.state.rag.search(q, COLLECTION, top_k=8)
    return [
        {
            "title": hit.title or hit.uri,
            "snippet": hit.snippet,  # HTML: words of the question are between <mark> and </mark>
            "where": hit.citation,
            "score": round(hit.score, 3),
        }
        for hit in hits
    ]


@app.get("/api/answer")
async def answer(request: Request, q: Question) -> StreamingResponse:
    """The pieces of an answer as events of the browser's EventSource, the sources last."""

    async def events() -> AsyncIterator[str]:
        try:
            async with request.app.state.rag.stream(q, COLLECTION) as pieces:
                async for piece in pieces:
                    yield event({"text": piece})
                yield event({"sources": [used["citation"] for used in pieces.context]})
        except RagError as error:
            yield event({"error": str(error)})

    return StreamingResponse(events(), media_type="text/event-stream")


def event(value: dict) -> str:
    return f"data: {json.dumps(value)}\n\n"


@app.exception_handler(RagError)
async def unavailable(_: Request, error: RagError) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status_code=503)
