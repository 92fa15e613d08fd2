"""Gemma 3 270M, pretrained, served to the openai package: a big SentencePiece vocabulary, no chat
template, windows shorter than the prompt. Skipped without MILEPOST_TEST_MODEL_GEMMA."""

import concurrent.futures
import os
import shutil
import tempfile

import openai
import pytest

from system import SLOW, System

LONG = "The river rises in the hills and falls slowly to the sea. " * 45  # over 550 tokens
PROMPTS = ["The three primary colours are", "1, 2, 3, 4,", "東京は", "def add(a, b):\n    return", LONG,
           "<b>Bold</b> and  two spaces\n\n\n\tthen 😀🫨"]


@pytest.fixture(scope="module")
def client():
    model = os.environ.get("MILEPOST_TEST_MODEL_GEMMA")
    if not model:
        pytest.skip("skipped: no model (set MILEPOST_TEST_MODEL_GEMMA)")
    folder = tempfile.mkdtemp(prefix="mp")
    system = System(folder, model)
    system.start("engine", extra=("--set", "engine.served_name=gemma"))
    yield openai.OpenAI(base_url=f"http://127.0.0.1:{system.port['engine']}/v1", api_key="none",
                        max_retries=0, timeout=60 * SLOW)
    system.stop()
    assert not system.crashes, "\n".join(system.crashes)
    shutil.rmtree(folder, ignore_errors=True)


def ask(client, i, **more):
    return client.completions.create(model="gemma", prompt=PROMPTS[i], max_tokens=10, temperature=0.7,
                                     seed=i, **more)


def test_it_knows_things(client):
    for prompt, word in (("The three primary colours are", "blue"), ("1, 2, 3, 4,", "5, 6")):
        reply = client.completions.create(model="gemma", prompt=prompt, max_tokens=8, temperature=0)
        assert word in reply.choices[0].text


def test_alone_together_and_streamed_are_the_same(client):
    each = range(len(PROMPTS))
    alone = [ask(client, i).choices[0].text for i in each]
    with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
        together = list(pool.map(lambda i: ask(client, i).choices[0].text, each))
        streamed = list(pool.map(
            lambda i: "".join(c.choices[0].text for c in ask(client, i, stream=True) if c.choices), each))
    assert together == alone
    assert streamed == alone
    assert all(alone)


def test_begins_with_bos_and_counts_it(client):
    assert ask(client, 1).usage.prompt_tokens == 12  # <bos> 1 , ▁ 2 , ▁ 3 , ▁ 4 ,


def test_no_chat_template_is_said(client):
    with pytest.raises(openai.BadRequestError, match="no chat template"):
        client.chat.completions.create(model="gemma", messages=[{"role": "user", "content": "Hi"}])
