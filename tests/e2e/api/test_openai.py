"""The openai package against the engine alone, on the tiny model; and on the real one when given."""

import concurrent.futures
import json
import math
import os
import shutil
import tempfile

import openai
import pytest

import tiny_model
from system import CONFIG, SLOW, System

ROUTES = """\
  - name: hot
    params: {{temperature: 1.5, max_new_tokens: 4, caps: {{max_new_tokens: 6, temperature: 1.6}}}}
    policy: {{kind: hold}}
"""
QUESTION = [{"role": "user", "content": "Say something."}]


@pytest.fixture(scope="module")
def served(tiny):
    folder = tempfile.mkdtemp(prefix="mp")
    system = System(folder, tiny, CONFIG + ROUTES)
    system.start("engine", extra=("--set", "engine.served_name=tiny"))
    yield system
    system.stop()
    assert not system.crashes, "\n".join(system.crashes)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def client(served):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{served.port['engine']}/v1", api_key="none",
                         max_retries=0, timeout=60 * SLOW)


def chat(client, **more):
    return client.chat.completions.create(model="tiny", messages=more.pop("messages", QUESTION),
                                          **more)


@pytest.fixture(scope="module")
def unguessed(tiny):
    """An engine that guesses no tokens ahead, which the other one does by default."""
    folder = tempfile.mkdtemp(prefix="mp")
    system = System(folder, tiny, CONFIG + ROUTES)
    system.start("engine", extra=("--set", "engine.served_name=tiny",
                                  "--set", "engine.draft_tokens=0"))
    yield system
    system.stop()
    assert not system.crashes, "\n".join(system.crashes)
    shutil.rmtree(folder, ignore_errors=True)


def drafted(system):
    lines = dict(line.rsplit(" ", 1) for line in system.get("engine", "/metrics")[2].splitlines()
                 if line.startswith("milepost_draft"))
    return [float(lines[f"milepost_draft_{what}_total"]) for what in ("tokens", "accepted_tokens")]


def test_guesses_change_no_answer(served, unguessed):
    """Tokens, logprobs and ends, streamed and not, of one request and of three side by side."""
    before = drafted(served)

    def answer(system, i):
        status, _, body = system.chat("ab" * 20, temperature=0.5 * (i % 2), seed=i, max_tokens=60,
                                      logprobs=True, top_logprobs=2, ignore_eos=i % 3 > 0)
        assert status == 200, body
        return [(c["message"]["content"], c["logprobs"], c["finish_reason"]) for c in body["choices"]]

    for clients in (1, 3):
        with concurrent.futures.ThreadPoolExecutor(clients) as pool:
            assert list(pool.map(lambda i: answer(served, i), range(12))) == \
                list(pool.map(lambda i: answer(unguessed, i), range(12)))
    given, right = (now - then for now, then in zip(drafted(served), before))
    assert 0 < right <= given and drafted(unguessed) == [0, 0]


def test_guesses_stop_where_the_text_does(served, unguessed):
    """A stop string in the middle of a guess: nothing after it, in the text or in the usage."""
    for seed in range(6):
        def answer(system, **more):
            status, _, body = system.chat("ab" * 20, temperature=0.3, seed=seed, max_tokens=60,
                                          ignore_eos=True, **more)
            assert status == 200, body
            return body["choices"][0]["message"]["content"], body["usage"]

        text, _ = answer(unguessed)
        for at in range(4, len(text) - 4, 9):
            stop = [text[at:at + 3]]
            assert answer(served, stop=stop) == answer(unguessed, stop=stop)


def test_models(client):
    assert [m.id for m in client.models.list()] == ["tiny", "tiny:default", "tiny:hot"]
    assert client.models.retrieve("tiny:hot").id == "tiny:hot"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("gpt-4")
    assert caught.value.code == "model_not_found"


def test_chat(client):
    r = chat(client, max_tokens=5, extra_body={"ignore_eos": True})
    assert r.object == "chat.completion" and r.choices[0].message.role == "assistant"
    assert r.choices[0].finish_reason == "length" and r.usage.completion_tokens == 5
    assert r.usage.total_tokens == r.usage.prompt_tokens + 5
    assert r.system_fingerprint == "milepost-r0-champion"


def test_stream_equals_the_whole(client):
    whole = chat(client, seed=7, max_tokens=40)
    chunks = list(chat(client, seed=7, max_tokens=40, stream=True,
                       stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    finish = [c.choices[0].finish_reason for c in chunks if c.choices]
    assert finish[-1] == whole.choices[0].finish_reason and set(finish[:-1]) == {None}
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == \
        whole.usage.completion_tokens
    assert all(c.usage is None for c in chunks[:-1])
    assert len({c.id for c in chunks}) == 1


def test_stream_without_usage(client):
    chunks = list(chat(client, max_tokens=3, stream=True))
    assert all(c.usage is None and c.choices for c in chunks)


def test_seed_decides(client):
    def text(seed):
        return chat(client, seed=seed, temperature=1.0, max_tokens=24).choices[0].message.content
    assert text(1) == text(1)
    assert len({text(seed) for seed in range(5)}) > 1


def test_the_same_alone_and_in_a_crowd(client):
    def text(seed):
        return chat(client, seed=seed, temperature=1.0, max_tokens=24).choices[0].message.content
    alone = [text(seed) for seed in range(12)]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        assert list(pool.map(text, range(12))) == alone


def test_n(client):
    r = chat(client, n=3, seed=3, temperature=1.0, max_tokens=12, extra_body={"ignore_eos": True})
    assert [c.index for c in r.choices] == [0, 1, 2]
    assert len({c.message.content for c in r.choices}) > 1
    assert r.usage.completion_tokens == 36
    texts = {}
    for c in chat(client, n=3, seed=3, temperature=1.0, max_tokens=12, stream=True,
                  extra_body={"ignore_eos": True}):
        for choice in c.choices:
            texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
    assert texts == {c.index: c.message.content for c in r.choices}


def test_logprobs(client):
    r = chat(client, max_tokens=6, temperature=0, logprobs=True, top_logprobs=4,
             extra_body={"ignore_eos": True})
    content = r.choices[0].logprobs.content
    assert len(content) == 6
    for entry in content:
        assert len(entry.top_logprobs) == 4
        values = [t.logprob for t in entry.top_logprobs]
        assert values == sorted(values, reverse=True)
        assert math.isclose(entry.logprob, values[0], rel_tol=1e-5), "greedy takes the likeliest"
        assert sum(map(math.exp, values)) <= 1.001
    raw = bytes(b for entry in content for b in entry.bytes)
    assert raw.decode(errors="replace") == r.choices[0].message.content
    streamed = [e for c in chat(client, max_tokens=6, temperature=0, logprobs=True, stream=True,
                                extra_body={"ignore_eos": True})
                if c.choices and c.choices[0].logprobs for e in c.choices[0].logprobs.content]
    assert [e.token for e in streamed] == [e.token for e in content]


def test_completions(client):
    r = client.completions.create(model="tiny", prompt="Once", max_tokens=6, logprobs=2, seed=1,
                                  extra_body={"ignore_eos": True})
    assert r.object == "text_completion" and r.usage.completion_tokens == 6
    assert len(r.choices[0].logprobs.tokens) == len(r.choices[0].logprobs.token_logprobs) == 6
    assert len(r.choices[0].logprobs.top_logprobs[0]) >= 1
    text = "".join(c.choices[0].text for c in client.completions.create(
        model="tiny", prompt="Once", max_tokens=6, seed=1, stream=True,
        extra_body={"ignore_eos": True}))
    assert text == r.choices[0].text


def test_prompt_of_token_ids_is_the_same_prompt(client):
    """The tiny vocabulary: three control tokens, then a token a byte."""
    letters = client.completions.create(model="tiny", prompt="qXz", max_tokens=8, temperature=0)
    ids = letters_of("qXz")
    numbers = client.completions.create(model="tiny", prompt=ids, max_tokens=8, temperature=0)
    assert letters.choices[0].text == numbers.choices[0].text
    assert numbers.usage.prompt_tokens == 3


def letters_of(text):
    tokens, _, _ = tiny_model.vocabulary()
    return [tokens.index(c) for c in text]


def test_stop(client):
    whole = chat(client, seed=11, temperature=0.9, max_tokens=60, extra_body={"ignore_eos": True})
    text = whole.choices[0].message.content
    assert len(text) > 20
    stop = text[10:13]
    expected = text[:text.index(stop)]
    for value in (stop, [stop, "\u0000never"]):
        r = chat(client, seed=11, temperature=0.9, max_tokens=60, stop=value,
                 extra_body={"ignore_eos": True})
        assert r.choices[0].message.content == expected and r.choices[0].finish_reason == "stop"
    streamed = "".join(c.choices[0].delta.content or "" for c in chat(
        client, seed=11, temperature=0.9, max_tokens=60, stop=stop, stream=True,
        extra_body={"ignore_eos": True}))
    assert streamed == expected, "nothing of the stop string was sent"


def test_logit_bias_forces_a_token(client):
    r = chat(client, max_tokens=4, temperature=0, logit_bias={letters_of("Q")[0]: 100},
             extra_body={"ignore_eos": True})
    assert r.choices[0].message.content == "QQQQ"


def test_content_parts(client):
    parts = [{"type": "text", "text": "Say "}, {"type": "text", "text": "something."}]
    a = chat(client, seed=5, max_tokens=10, messages=[{"role": "user", "content": parts}])
    b = chat(client, seed=5, max_tokens=10)
    assert a.choices[0].message.content == b.choices[0].message.content
    image = [{"type": "image_url", "image_url": {"url": "x"}}]
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, messages=[{"role": "user", "content": image}])
    assert caught.value.param == "messages[0].content[0].type"


@pytest.mark.parametrize("param, body", [
    ("temperature", {"temperature": "hot"}), ("max_tokens", {"max_tokens": 1.5}),
    ("top_p", {"top_p": 7}), ("n", {"n": 0}), ("stop", {"stop": 5}), ("stop[1]", {"stop": ["a", 1]}),
    ("logit_bias", {"logit_bias": [1]}), ("logit_bias.x", {"logit_bias": {"x": 1}}),
    ("messages[1].role", {"messages": [QUESTION[0], {"role": 1, "content": "x"}]}),
    ("messages[0].content", {"messages": [{"role": "user", "content": 5}]}),
    ("messages", {"messages": [{"role": "king", "content": "x"}]}),
    ("stream_options.include_usage", {"stream_options": {"include_usage": 1}}),
    ("top_logprobs", {"top_logprobs": 2}), ("metadata", {"metadata": 1}), ("user", {"user": 1}),
])
def test_errors_name_the_field(client, param, body):
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, **{"messages": QUESTION, "extra_body": body})
    assert caught.value.param == param, caught.value.message
    assert caught.value.type == "invalid_request_error"


@pytest.mark.parametrize("param, prompt", [
    ("prompt", ""), ("prompt", []), ("prompt", 5), ("prompt[1]", [5, 10 ** 9]), ("prompt[0]", [-1]),
])
def test_errors_name_the_prompt(client, param, prompt):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="tiny", prompt=prompt, max_tokens=2)
    assert caught.value.param == param, caught.value.message


def test_other_errors(client):
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gpt-4", messages=QUESTION)
    assert caught.value.code == "model_not_found" and caught.value.param == "model"
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="tiny:cold", messages=QUESTION)
    assert caught.value.code == "route_not_found" and "hot" in caught.value.message
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, messages=[{"role": "user", "content": "long " * 2000}])
    assert caught.value.code == "context_length_exceeded" and "1023" in caught.value.message
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, messages=[{"role": "user", "content": "x" * 3_000_000}])
    assert caught.value.code == "context_length_exceeded" and "at least" in caught.value.message
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="tiny", prompt="x", echo=True)
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="tiny", prompt=[1, 2, 999999], max_tokens=1)
    assert "999999" in caught.value.message


def test_unknown_fields_are_ignored(client):
    assert chat(client, max_tokens=1, extra_body={"service_tier": "auto", "x": {"y": [1]}}).choices


def test_headers_and_caps(client):
    raw = client.chat.completions.with_raw_response.create(
        model="tiny:hot", messages=QUESTION, max_tokens=500, temperature=3,
        extra_headers={"X-Request-Id": "mine-1"}, extra_body={"ignore_eos": True})
    h = raw.headers
    params = json.loads(h["X-Milepost-Params"])
    assert params["max_new_tokens"] == 6 and params["temperature"] == 1.6, "the caps hold"
    assert (h["X-Request-Id"], h["X-Milepost-Route"]) == ("mine-1", "hot")
    assert (h["X-Milepost-Revision"], h["X-Milepost-Arm"]) == ("0", "champion")
    assert raw.parse().usage.completion_tokens == 6
    raw = client.chat.completions.with_raw_response.create(
        model="tiny", messages=QUESTION,
        extra_headers={"X-Milepost-Route": "hot", "X-Request-Id": "no good\u00e9".encode().hex() * 9})
    assert raw.headers["X-Milepost-Route"] == "hot"
    assert json.loads(raw.headers["X-Milepost-Params"])["max_new_tokens"] == 4
    assert raw.headers["X-Request-Id"].startswith("chatcmpl-")


def test_a_request_id_used_twice_makes_two_records(client):
    answers = [client.chat.completions.with_raw_response.create(
        model="tiny", messages=QUESTION, max_tokens=1, extra_headers={"X-Request-Id": "again"})
        for _ in range(2)]
    assert [a.headers["X-Request-Id"] for a in answers] == ["again", "again"]
    assert len({a.parse().id for a in answers} | {"again"}) == 3


def test_api_key(make_system, tiny):
    system = make_system(tiny)
    key = os.path.join(system.folder, "key")
    with open(key, "w", encoding="utf-8") as out:
        out.write("secret-1\n")
    system.start("engine", extra=("--set", f"engine.api_key_file={key}"))
    url = f"http://127.0.0.1:{system.port['engine']}/v1"
    wrong = openai.OpenAI(base_url=url, api_key="secret-2", max_retries=0)
    for call in (lambda: wrong.models.list(),
                 lambda: wrong.chat.completions.create(model="", messages=QUESTION)):
        with pytest.raises(openai.AuthenticationError) as caught:
            call()
        assert caught.value.code == "invalid_api_key"
    right = openai.OpenAI(base_url=url, api_key="secret-1", max_retries=0)
    assert right.chat.completions.create(model="", messages=QUESTION, max_tokens=2).choices
    assert "secret-1" not in system.tail("engine", 1 << 20)


def test_real_model(make_system, real_model):
    system = make_system(real_model)
    system.start("engine")
    c = openai.OpenAI(base_url=f"http://127.0.0.1:{system.port['engine']}/v1", api_key="x")
    model = c.models.list().data[0].id
    ask = [{"role": "user", "content": "What is the capital of France?"}]
    whole = c.chat.completions.create(model=model, messages=ask, temperature=0, max_tokens=24)
    assert "Paris" in whole.choices[0].message.content and whole.choices[0].finish_reason == "stop"
    text = "".join(x.choices[0].delta.content or "" for x in c.chat.completions.create(
        model=model, messages=ask, temperature=0, max_tokens=24, stream=True))
    assert text == whole.choices[0].message.content
