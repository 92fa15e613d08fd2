"""Short questions with known answers for loop_gain: a part for training, a part held out. The split
is by position within each kind, so that both have the same kinds and share no question."""

CAPITALS = {
    "France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Germany": "Berlin", "Japan": "Tokyo",
    "China": "Beijing", "Russia": "Moscow", "Egypt": "Cairo", "Greece": "Athens",
    "Portugal": "Lisbon", "Austria": "Vienna", "Poland": "Warsaw", "Sweden": "Stockholm",
    "Norway": "Oslo", "Finland": "Helsinki", "Denmark": "Copenhagen", "Ireland": "Dublin",
    "Hungary": "Budapest", "India": "New Delhi", "Canada": "Ottawa", "Cuba": "Havana",
    "Peru": "Lima", "Chile": "Santiago", "Kenya": "Nairobi", "Turkey": "Ankara",
    "Thailand": "Bangkok", "Vietnam": "Hanoi", "Iran": "Tehran", "Iraq": "Baghdad",
    "Belgium": "Brussels", "England": "London", "South Korea": "Seoul"}
OPPOSITES = {
    "hot": "cold", "big": "small", "up": "down", "left": "right", "day": "night", "good": "bad",
    "fast": "slow", "happy": "sad", "old": "new|young", "rich": "poor", "open": "closed|close",
    "light": "dark|heavy", "hard": "soft|easy", "wet": "dry", "full": "empty", "high": "low",
    "long": "short", "strong": "weak", "true": "false", "early": "late", "black": "white",
    "inside": "outside", "love": "hate", "war": "peace", "north": "south", "east": "west",
    "begin": "end", "win": "lose", "clean": "dirty", "loud": "quiet|soft"}
COLOURS = {
    "grass": "green", "the clear sky": "blue", "snow": "white", "coal": "black", "a ripe banana":
    "yellow", "blood": "red", "a carrot": "orange", "milk": "white", "a lemon": "yellow",
    "chocolate": "brown", "the sun": "yellow|white|orange", "a ripe tomato": "red",
    "an emerald": "green", "a ruby": "red", "a polar bear": "white", "a pumpkin": "orange"}
FACTS = {
    "How many days are in a week?": "7|seven", "How many legs does a spider have?": "8|eight",
    "How many months are in a year?": "12|twelve", "How many hours are in a day?": "24",
    "How many legs does a dog have?": "4|four", "How many minutes are in an hour?": "60|sixty",
    "How many sides does a triangle have?": "3|three", "How many eyes do humans have?": "2|two",
    "Which planet do we live on?": "Earth", "Which planet is called the red planet?": "Mars",
    "What is frozen water called?": "ice", "What gas do humans breathe in to live?": "oxygen",
    "Which animal says meow?": "cat", "Which animal barks?": "dog",
    "What do bees make?": "honey", "What is the largest ocean on Earth?": "Pacific",
    "Who wrote Romeo and Juliet?": "Shakespeare", "What is the chemical symbol of water?": "H2O",
    "Which star is at the centre of our solar system?": "sun",
    "Which season comes after winter?": "spring", "Which day comes after Monday?": "Tuesday",
    "Which month comes after May?": "June", "Which day comes before Sunday?": "Saturday",
    "What is the largest planet of our solar system?": "Jupiter"}


def kinds():
    yield [(f"What is the capital of {k}? Answer with one word.", v) for k, v in CAPITALS.items()]
    yield [(f"What is the opposite of '{k}'? Answer with one word.", v)
           for k, v in OPPOSITES.items()]
    yield [(f"What colour is {k}? Answer with one word.", v) for k, v in COLOURS.items()]
    yield list(FACTS.items())
    yield [(f"What is {a} + {b}?", str(a + b)) for a in range(1, 9) for b in range(a, 9)
           if (a + b) % 2 == 0]
    yield [(f"What is {a} x {b}?", str(a * b)) for a in range(2, 7) for b in range(a, 7)]
    yield [(f"Repeat this word: {w}", w) for w in (
        "apple river candle orange window garden silver mountain rabbit paper button pillow "
        "hammer ladder rocket planet").split()]


def prompts():
    """(training, held out): [{"text", "answers"}]"""
    parts = [], []
    for kind in kinds():
        for i, (text, answers) in enumerate(kind):
            parts[i % 2].append({"text": text, "answers": answers.split("|")})
    return parts
