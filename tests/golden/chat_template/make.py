#!/usr/bin/env python3
"""Writes cases.json: make.py MODEL.gguf > cases.json

Conversations rendered by jinja2 with the settings of transformers' apply_chat_template. The SmolLM2
template is the model file's own; the others are the public templates of their families without
tools and pictures. For SmolLM2 also the token ids, from Hugging Face tokenizers over the file's
vocabulary. See README.md.
"""
import json
import sys
from pathlib import Path

import gguf
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tokenizer"))
import make as tokenizer_golden  # noqa: E402

TURNS = ("{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
         "{{ raise_exception('Conversation roles must alternate') }}{% endif %}")
SYSTEM_FIRST = ("{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content'] %}"
                "{%- set loop_messages = messages[1:] %}{%- else %}{%- set loop_messages = messages %}{%- endif %}")

LLAMA3 = ("{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
          "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + "
          "'<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}"
          "{{ content }}{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}")
LLAMA31 = ("{{- bos_token }}\n{%- if not date_string is defined %}\n    {%- set date_string = \"26 Jul 2024\" %}\n"
           "{%- endif %}\n\n{#- This block takes the system message out. #}\n"
           "{%- if messages[0]['role'] == 'system' %}\n    {%- set system_message = messages[0]['content']|trim %}\n"
           "    {%- set messages = messages[1:] %}\n{%- else %}\n    {%- set system_message = \"\" %}\n{%- endif %}\n"
           "{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}\n"
           "{{- \"Cutting Knowledge Date: December 2023\\n\" }}\n{{- \"Today Date: \" + date_string + \"\\n\\n\" }}\n"
           "{{- system_message }}\n{{- \"<|eot_id|>\" }}\n{%- for message in messages %}\n"
           "    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim "
           "+ '<|eot_id|>' }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n"
           "    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n{%- endif %}\n")
CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
          "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
QWEN25 = ("{%- if messages[0]['role'] == 'system' %}\n        {{- '<|im_start|>system\\n' + messages[0]['content'] "
          "+ '<|im_end|>\\n' }}\n    {%- else %}\n        {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba "
          "Cloud. You are a helpful assistant.<|im_end|>\\n' }}\n    {%- endif %}\n{%- for message in messages %}\n"
          "    {%- if (message.role == \"user\") or (message.role == \"system\" and not loop.first) or "
          "(message.role == \"assistant\") %}\n        {{- '<|im_start|>' + message.role + '\\n' + message.content "
          "+ '<|im_end|>' + '\\n' }}\n    {%- endif %}\n{%- endfor %}\n{%- if add_generation_prompt %}\n"
          "    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n")
MISTRAL1 = ("{{ bos_token }}{% for message in messages %}" + TURNS + "{% if message['role'] == 'user' %}"
            "{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
            "{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles') }}"
            "{% endif %}{% endfor %}")
MISTRAL2 = (SYSTEM_FIRST + "\n\n{{- bos_token }}\n{%- for message in loop_messages %}" + TURNS +
            "{%- if message['role'] == 'user' %}\n        {%- if loop.first and system_message is defined %}\n"
            "            {{- ' [INST] ' + system_message + '\\n\\n' + message['content'] + ' [/INST]' }}\n"
            "        {%- else %}\n            {{- ' [INST] ' + message['content'] + ' [/INST]' }}\n        {%- endif %}\n"
            "    {%- elif message['role'] == 'assistant' %}\n        {{- ' ' + message['content'] + eos_token}}\n"
            "    {%- else %}\n        {{- raise_exception('Only user and assistant roles') }}\n    {%- endif %}\n"
            "{%- endfor %}\n")
MISTRAL3 = (SYSTEM_FIRST + "{{- bos_token }}{%- for message in loop_messages %}" + TURNS +
            "{%- if message[\"role\"] == \"user\" %}{%- if loop.last and system_message is defined %}"
            "{{- \"[INST] \" + system_message + \"\\n\\n\" + message[\"content\"] + \"[/INST]\" }}{%- else %}"
            "{{- \"[INST] \" + message[\"content\"] + \"[/INST]\" }}{%- endif %}"
            "{%- elif message[\"role\"] == \"assistant\" %}{{- \" \" + message[\"content\"]|trim + eos_token}}"
            "{%- else %}{{- raise_exception(\"Only user and assistant roles\") }}{%- endif %}{%- endfor %}")
GEMMA = ("{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
         "{% endif %}{% for message in messages %}" + TURNS + "{% if (message['role'] == 'assistant') %}"
         "{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}"
         "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
         "{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}")
GEMMA3 = ("{{ bos_token }}\n{%- if messages[0]['role'] == 'system' -%}\n"
          "    {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}\n"
          "    {%- set loop_messages = messages[1:] -%}\n{%- else -%}\n    {%- set first_user_prefix = \"\" -%}\n"
          "    {%- set loop_messages = messages -%}\n{%- endif -%}\n{%- for message in loop_messages -%}\n" + TURNS +
          "{%- if (message['role'] == 'assistant') -%}\n        {%- set role = \"model\" -%}\n    {%- else -%}\n"
          "        {%- set role = message['role'] -%}\n    {%- endif -%}\n"
          "    {{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else \"\") }}\n"
          "    {%- if message['content'] is string -%}\n        {{ message['content'] | trim }}\n    {%- endif -%}\n"
          "    {{ '<end_of_turn>\n' }}\n{%- endfor -%}\n{%- if add_generation_prompt -%}\n"
          "    {{'<start_of_turn>model\n'}}\n{%- endif -%}\n")
DEEPSEEK = ("{% set ns = namespace(system_prompt='') %}{%- for message in messages %}"
            "{%- if message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{%- endif %}"
            "{%- endfor %}{{bos_token}}{{ns.system_prompt}}{%- for message in messages %}"
            "{%- if message['role'] == 'user' %}{{'<｜User｜>' + message['content']}}{%- endif %}"
            "{%- if message['role'] == 'assistant' %}{{'<｜Assistant｜>' + message['content'] + "
            "'<｜end▁of▁sentence｜>'}}{%- endif %}{%- endfor -%}"
            "{% if add_generation_prompt %}{{'<｜Assistant｜>'}}{% endif %}")
DEEPSEEK_R1 = DEEPSEEK.replace(
    "{{'<｜Assistant｜>' + message['content'] + ",
    "{% set content = message['content'] %}{% if '</think>' in content %}"
    "{% set content = content.split('</think>')[-1] %}{% endif %}{{'<｜Assistant｜>' + content + ",
).replace("{{'<｜Assistant｜>'}}", "{{'<｜Assistant｜><think>\\n'}}")

IM = ["<|im_start|>", "<|im_end|>"]
HEADER = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
INST = ["<s>", "</s>", "[INST]", "[/INST]"]
TURN = ["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"]
DS = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"]
FAMILIES = [  # name, row, text, control tokens, BOS, EOS
    ("chatml", "chatml", CHATML, IM, None, "<|im_end|>"),
    ("qwen2.5", "chatml", QWEN25, IM, None, "<|im_end|>"),
    ("hermes", "chatml", "{{bos_token}}" + CHATML, ["<s>", *IM], "<s>", "<|im_end|>"),
    ("llama3", "llama3", LLAMA3, HEADER, "<|begin_of_text|>", "<|eot_id|>"),
    ("llama3.1", "llama3", LLAMA31, HEADER, "<|begin_of_text|>", "<|eot_id|>"),
    ("mistral v1", "mistral", MISTRAL1, INST, "<s>", "</s>"),
    ("mistral v2", "mistral", MISTRAL2, INST, "<s>", "</s>"),
    ("mistral v3", "mistral", MISTRAL3, INST, "<s>", "</s>"),
    ("gemma", "gemma", GEMMA, TURN, "<bos>", "<eos>"),
    ("gemma3", "gemma", GEMMA3, TURN, "<bos>", "<eos>"),
    ("deepseek v3", "deepseek", DEEPSEEK, DS, DS[0], DS[1]),
    ("deepseek r1", "deepseek", DEEPSEEK_R1, DS, DS[0], DS[1]),
]

TEXTS = {
    "s": ["You are terse.", "  Answer in French.\n", "", "línea 1\n\nlínea 2 \u00a0"],
    "u": ["Hello", "  What's 12 + 34?\n\n", "\nfirst line\n  second", "你好，世界 👩‍👩‍👧", "tab\there", "\u2003wide\u3000"],
    "a": ["Hi there!", " 46 ", "<think>\nHm.\n</think>\n\nBonjour", "", "\nListe:\n- un\n- deux\n"],
}
ROLE = {"s": "system", "u": "user", "a": "assistant"}
SHAPES = ["u", "su", "uau", "suau", "uauau", "suauau", "ua", "sua", "s", "uu", "au", "usu", "us", "saua", "uaa"]


def conversations():
    for shape in SHAPES:
        for shift in range(4):
            yield [{"role": ROLE[k], "content": TEXTS[k][(i + shift) % len(TEXTS[k])]}
                   for i, k in enumerate(shape)]


def render(text, messages, bos, eos):
    """None where the template refuses the conversation."""
    def raise_exception(message):
        raise TemplateError(message)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.globals["raise_exception"] = raise_exception
    try:
        return env.from_string(text).render(messages=messages, add_generation_prompt=True,
                                            bos_token=bos or "", eos_token=eos or "")
    except TemplateError:
        return None


def real_cases(path):
    fields = gguf.GGUFReader(path).fields
    text = fields["tokenizer.chat_template"].contents()
    vocabulary = tokenizer_golden.read_vocabulary(path)
    tok = tokenizer_golden.build(vocabulary, *tokenizer_golden.splits()["smollm"])
    for messages in conversations():
        rendered = render(text, messages, "<|im_start|>", "<|im_end|>")
        ids = tokenizer_golden.encode(tok, rendered.encode(), tokenizer_golden.PARSE_SPECIAL)
        yield {"messages": messages, "ids": ids}


def family(name, row, text, control, bos, eos):
    cases = []
    for m in conversations():
        # Gemma's text would write a later system message as a turn of that name, which the model has
        # never seen; Milepost refuses it, as the alternation it demands would have it.
        is_refused = row == "gemma" and any(k["role"] == "system" for k in m[1:])
        cases.append({"messages": m, "text": None if is_refused else render(text, m, bos, eos)})
    return {"name": name, "row": row, "jinja": text, "control": control, "bos": bos, "eos": eos, "cases": cases}


def main():
    path = sys.argv[1]
    smollm2 = gguf.GGUFReader(path).fields["tokenizer.chat_template"].contents()
    families = [("smollm2", "chatml", smollm2, IM, "<|im_start|>", "<|im_end|>"), *FAMILIES]
    json.dump({"families": [family(*f) for f in families], "smollm2_ids": list(real_cases(path))},
              sys.stdout, ensure_ascii=False, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
