#!/usr/bin/env python3
"""Writes prompts.jsonl, the committed prompts of `milepost demo`: run it, commit what it wrote.

Fixed lists, no randomness. Every line is a chat request whose answer a rule can judge:
metadata.kind says which checks of demo.yaml apply, metadata.reference is the right answer. Each kind
shows the model its form in an earlier turn, so that a small model can do it at a low temperature and
loses it at a high one. Mean reward of every third prompt with SmolLM2-135M-Instruct Q4_1 through the
engine and the verifier: 0.94 at temperature 0.2, 0.90 at 0.7, 0.80 at 1.0, 0.40 at 1.3, 0.04 at 1.7.
"""
import json
import pathlib

NAMES = ["Ann", "Ben", "Carla", "David", "Emma", "Frank", "Grace", "Henry", "Iris", "Jack",
         "Kate", "Leo", "Maria", "Nina", "Oscar", "Paula", "Robert", "Sara", "Tina", "Victor"]
CITIES = ["Paris", "London", "Berlin", "Madrid", "Vienna", "Miami", "Dublin", "Lisbon", "Seattle",
          "Prague", "Boston", "Chicago", "Tokyo", "Denver", "Dallas", "Delhi", "Sydney"]
THINGS = ["fruits", "animals", "colors", "cities", "vegetables", "sports", "countries", "flowers",
          "birds", "trees", "drinks", "tools", "planets", "metals", "languages", "rivers",
          "insects", "desserts", "instruments", "shapes", "clothes", "jobs", "games", "spices",
          "seasons", "oceans", "fish", "colors of flowers", "holidays", "vehicles", "nuts", "toys",
          "rooms of a house", "school subjects", "parts of the body", "kitchen items", "berries",
          "reptiles", "mammals", "soups"]
OBJECTS = ["ball", "box", "car", "cup", "door", "hat", "book", "chair", "bag", "flag"]
COLORS = ["red", "blue", "green", "white", "black", "yellow"]
TOPICS = ["the sun", "rain", "coffee", "a bicycle", "the ocean", "winter", "a dog", "music", "bread",
          "a library", "the moon", "a garden", "chess", "honey", "a bridge", "the desert", "tea",
          "a train", "spring", "a mountain", "football", "a candle", "the wind", "a doctor", "snow",
          "an apple", "a river", "a school", "a cat", "the forest", "milk", "a clock", "a farmer",
          "a map", "summer", "a lamp", "a boat", "fire", "a teacher", "salt"]


def chat(kind, reference, system, *turns):
    """One request; turns alternate user, assistant, ..., user."""
    roles = ["user", "assistant"] * len(turns)
    messages = [{"role": "system", "content": system}]
    messages += [{"role": r, "content": t} for r, t in zip(roles, turns)]
    metadata = {"kind": kind}
    if reference is not None:
        metadata["reference"] = reference
    return {"kind": kind, "messages": messages, "metadata": metadata}


def person_prompts():
    system = 'Answer with one JSON object that has the keys "name", "age" and "city".'
    for i in range(60):
        name, city, age = NAMES[i % 20], CITIES[(i * 5 + 3) % 17], 18 + (i * 7) % 60
        yield chat("json", {"name": name, "age": age, "city": city}, system,
                   "Tom is 40 years old and lives in Rome.",
                   '{"name": "Tom", "age": 40, "city": "Rome"}',
                   "Lucy is 25 years old and lives in Milan.",
                   '{"name": "Lucy", "age": 25, "city": "Milan"}',
                   f"{name} is {age} years old and lives in {city}.")


def sum_prompts():
    pairs = [(a, b) for a in range(1, 10) for b in range(1, 10) if a + b <= 10][:45]
    for a, b in pairs:
        yield chat("sum", a + b, "Answer with the sum only, as a number.",
                   "2 + 3", "2 + 3 = 5", "4 + 6", "4 + 6 = 10", f"{a} + {b}")


def list_prompts():
    for thing in THINGS:
        yield chat("list", None, "Answer with a numbered list of three items and nothing else.",
                   "Name three pets.", "1. dog\n2. cat\n3. hamster", f"Name three {thing}.")


def city_prompts():
    for i in range(40):
        name, city = NAMES[(i * 3 + 1) % 20], CITIES[i % 17]
        yield chat("exact", city, "Answer with the name of the city only.",
                   "Tom lives in Rome. Where does Tom live?", "Rome",
                   "Lucy moved to Milan. Where does Lucy live?", "Milan",
                   f"{name} {'lives in' if i % 2 else 'moved to'} {city}. Where does {name} live?")


def color_prompts():
    for i in range(45):
        thing, color = OBJECTS[i % 10], COLORS[(i + i // 10) % 6]
        yield chat("choice", color, f"Answer with one of these colors: {', '.join(COLORS)}.",
                   "The pen is red. What color is the pen?", "red",
                   "The cat is black. What color is the cat?", "black",
                   f"The {thing} is {color}. What color is the {thing}?")


def sentence_prompts():
    for topic in TOPICS:
        yield chat("sentence", None, "Answer with one short sentence that ends with a full stop.",
                   "Write about ice.", "Ice is frozen water.", f"Write about {topic}.")


def interleave(*lists):
    """Round-robin, so that every stretch of the file has the same mix."""
    rest = [list(l) for l in lists]
    longest = max(map(len, rest))
    keyed = [((i + 0.5) * longest / len(l), k, x) for k, l in enumerate(rest) for i, x in enumerate(l)]
    return [x for _, _, x in sorted(keyed, key=lambda t: t[:2])]


def main():
    prompts = interleave(person_prompts(), sum_prompts(), list_prompts(), city_prompts(),
                         color_prompts(), sentence_prompts())
    path = pathlib.Path(__file__).with_name("prompts.jsonl")
    with path.open("w", encoding="utf-8") as out:
        for number, prompt in enumerate(prompts, 1):
            line = {"id": f"{prompt['kind']}-{number:03d}", "route": "default", **prompt}
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
    print(f"{len(prompts)} prompts in {path.name}")


if __name__ == "__main__":
    main()
