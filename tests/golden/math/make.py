#!/usr/bin/env python3
"""Makes pairs.tsv: pairs of answers with the truth by construction and the verdict of math-verify.

usage: make.py > pairs.tsv     (in a virtual environment with math-verify==0.9.0)

Every generated pair is equal or different by the way it is built: the same exact value written
twice, or one of the two changed. PUBLIC holds pairs whose facts come from test suites named there;
their truth was judged by a person. math-verify's verdict is recorded, never used as the truth.
"""
import random
from fractions import Fraction
from math import gcd

rng = random.Random(20240611)
rows = []


def put(kind, output, reference, same):
    rows.append((kind, output, reference, 'pass' if same else 'fail'))


def wrap(text):
    """A model's way to state it."""
    return rng.choice(['${}$', '\\boxed{{{}}}', 'The answer is ${}$.', '\\[ {} \\]',
                       'So we get $\\boxed{{{}}}$.']).format(text)


def frac(q, style=None):
    style = style or rng.choice(['frac', 'dfrac', 'slash'])
    if q.denominator == 1:
        return str(q.numerator)
    sign = '-' if q < 0 else ''
    n, d = abs(q.numerator), q.denominator
    return f'{sign}{n}/{d}' if style == 'slash' else f'{sign}\\{style}{{{n}}}{{{d}}}'


def some_fraction(top=60, bottom=24):
    return Fraction(rng.randint(-top, top), rng.randint(1, bottom))


def other(q):
    return q + rng.choice([1, -1, Fraction(1, 7), Fraction(-1, 3)])


def unreduced(q):
    k = rng.randint(2, 9)
    return f'\\frac{{{q.numerator * k}}}{{{q.denominator * k}}}'


def fractions(n):
    for i in range(n):
        q = some_fraction()
        shown = q if i % 2 else other(q)
        put('fraction', wrap(rng.choice([unreduced(shown), frac(shown)])), f'${frac(q)}$',
            shown == q)


def decimals(n):
    for i in range(n):
        q = Fraction(rng.randint(-9999, 9999), rng.choice([2, 4, 5, 8, 10, 20, 25, 40, 100]))
        text = f'{float(q):.6f}'.rstrip('0').rstrip('.')
        shown = q if i % 2 else q + Fraction(1, 100)
        put('decimal', wrap(frac(shown)), f'${text}$', shown == q)


def grouped(n):
    for i in range(n):
        value = rng.randint(1000, 10 ** rng.randint(4, 12))
        shown = value if i % 2 else value + 10
        mark = rng.choice([',', '{,}', ',\\!', '\\,'])
        text = f'{shown:,}'.replace(',', mark)
        put('thousands', wrap(text), f'${value}$', shown == value)


def radicals(n):
    for i in range(n):
        k, r = rng.randint(2, 9), rng.choice([2, 3, 5, 6, 7, 10, 11])
        form = rng.choice([f'\\sqrt{{{k * k * r}}}', f'{k}\\sqrt{{{r}}}', f'{k}\\cdot\\sqrt{r}',
                           f'\\frac{{{k * r}}}{{\\sqrt{{{r}}}}}', f'{k} \\cdot {r}^{{1/2}}'])
        j = k if i % 2 else k + 1
        put('radical', wrap(form), f'${j}\\sqrt{{{r}}}$', j == k)


def nested(n):
    for i in range(n):
        a, b = rng.randint(1, 9), rng.choice([2, 3, 5, 7])
        c = a if i % 2 else a + 1
        put('radical', wrap(f'\\frac{{1}}{{{a}+\\sqrt{{{b}}}}}'),
            f'$\\frac{{{c}-\\sqrt{{{b}}}}}{{{c * c}-{b}}}$', a == c)


def polynomials(n):
    for i in range(n):
        a, b, c, d = (rng.choice([-1, 1]) * rng.randint(1, 7) for _ in range(4))
        x = rng.choice('xtnk')
        e = b if i % 2 else b + 1
        full = f'{a * c}{x}^2{a * d + e * c:+d}{x}{e * d:+d}'
        put('expression', wrap(f'({a}{x}{b:+d})({c}{x}{d:+d})'), f'${full}$', e == b)


def identities(n):
    same = [('\\sin^2 {0}+\\cos^2 {0}', '1'), ('\\sec^2 {0} - 1', '\\tan^2 {0}'),
            ('\\sin 2{0}', '2\\sin {0}\\cos {0}'), ('\\ln({0}^3)', '3\\ln {0}'),
            ('e^{{2{0}}}', '(e^{0})^2'), ('\\frac{{{0}^2-1}}{{{0}-1}}', '{0}+1'),
            ('\\cos 2{0}', '1-2\\sin^2 {0}'), ('\\log_2 8{0}', '3+\\log_2 {0}'),
            ('\\frac{{1}}{{{0}}}-\\frac{{1}}{{{0}+1}}', '\\frac{{1}}{{{0}({0}+1)}}')]
    wrong = [('\\sin^2 {0}-\\cos^2 {0}', '1'), ('\\sin 2{0}', '2\\sin {0}'),
             ('\\ln({0}+3)', '\\ln {0} + \\ln 3'), ('({0}+1)^2', '{0}^2+1'),
             ('\\sqrt{{{0}^2+1}}', '{0}+1'), ('\\frac{{{0}}}{{2{0}+1}}', '\\frac{{1}}{{3}}')]
    for i in range(n):
        table, truth = (same, True) if i % 2 else (wrong, False)
        left, right = rng.choice(table)
        x = rng.choice(['x', 't', '\\theta', 'y'])
        put('expression', wrap(left.format(x)), f'${right.format(x)}$', truth)


def tuples(n):
    for i in range(n):
        point = [some_fraction(20, 6) for _ in range(rng.randint(2, 4))]
        shown = list(point)
        if i % 2 == 0:
            k = rng.randrange(len(shown))
            shown[k] = other(shown[k])
        text = ', '.join(frac(q, 'frac') for q in shown)
        put('tuple', wrap(rng.choice(['({})', '\\left( {} \\right)']).format(text)),
            '$({})$'.format(','.join(frac(q, 'slash') for q in point)), shown == point)


def orders(n):
    for i in range(n):
        items = rng.sample(range(-30, 30), rng.randint(2, 5))
        mixed = list(items)
        while mixed == items:
            rng.shuffle(mixed)
        is_set = i % 2
        text = ', '.join(map(str, mixed))
        gold = ', '.join(map(str, items))
        if is_set:
            put('set', wrap('\\{' + text + '\\}'), '$\\{' + gold + '\\}$', True)
        else:
            put('tuple', wrap(f'({text})'), f'$({gold})$', False)


def intervals(n):
    for i in range(n):
        a = rng.randint(-20, 10)
        b = a + rng.randint(1, 15)
        left, right = rng.choice('(['), rng.choice(')]')
        truth = bool(i % 2)
        wrong = {'(': '[', '[': '('}[left]
        kind = rng.randrange(3)
        shown = left if truth else wrong
        low, high = '<' if shown == '(' else '\\le', '<' if right == ')' else '\\le'
        if kind == 0:
            text = f'{shown}{a}, {b}{right}'
        elif kind == 1:
            text = f'{a} {low} x {high} {b}'
        else:
            text = f'x \\in {shown}{a},{b}{right}'
        put('interval', wrap(text), f'${left}{a},{b}{right}$', truth)


def unions(n):
    for i in range(n):
        a = rng.randint(-9, 5)
        b = a + rng.randint(1, 9)
        c = b if i % 2 else b + 1
        text = rng.choice([f'(-\\infty, {a}) \\cup ({c}, \\infty)', f'x < {a} \\text{{ or }} x > {c}',
                           f'({c},\\infty)\\cup(-\\infty,{a})'])
        put('interval', wrap(text), f'$(-\\infty,{a})\\cup({b},\\infty)$', b == c)


def equations(n):
    for i in range(n):
        a, b, c = (rng.choice([-1, 1]) * rng.randint(1, 9) for _ in range(3))
        k = rng.choice([-3, -2, -1, 2, 3])
        d = c if i % 2 else c + 1
        text = f'{a * k}x {b * k:+d}y {d * k:+d} = 0'
        put('equation', wrap(text), f'${a}x{b:+d}y{c:+d}=0$', d == c)


def lines(n):
    for i in range(n):
        m, b = rng.randint(2, 9), rng.randint(1, 9)
        c = b if i % 2 else b + 2
        put('equation', wrap(f'y = {m}x + {c}'), f'${m}x - y + {b} = 0$', c == b)


def inequalities(n):
    for i in range(n):
        a, b = rng.randint(2, 9), rng.randint(-9, 9)
        truth = bool(i % 2)
        q = Fraction(b, a)
        put('inequality', wrap(f'x {">" if truth else "<"} {frac(q, "frac")}'), f'${a}x > {b}$', truth)


def assignments(n):
    for i in range(n):
        q = some_fraction()
        shown = q if i % 2 else other(q)
        name = rng.choice(['x', 'k', 'f(2)', 'a_1', 'AB', '|v|', 'P(A)'])
        put('equation', wrap(f'{name} = {frac(shown, "frac")}'), f'${frac(q)}$', shown == q)


def matrices(n):
    for i in range(n):
        r, c = rng.randint(1, 3), rng.randint(2, 3)
        cells = [[rng.randint(-9, 9) for _ in range(c)] for _ in range(r)]
        shown = [row[:] for row in cells]
        if i % 2 == 0:
            shown[rng.randrange(r)][rng.randrange(c)] += 1
        left, right = rng.choice(['pmatrix', 'bmatrix']), rng.choice(['pmatrix', 'bmatrix'])
        text = [' \\\\ '.join(' & '.join(map(str, row)) for row in m) for m in (shown, cells)]
        put('matrix', wrap(f'\\begin{{{left}}}{text[0]}\\end{{{left}}}'),
            f'$\\begin{{{right}}}{text[1]}\\end{{{right}}}$', shown == cells)


def percents(n):
    for i in range(n):
        p = Fraction(rng.randint(1, 400), rng.choice([1, 2, 4]))
        shown = p if i % 2 else p + 3
        text = f'{float(shown):g}' + rng.choice(['\\%', '\\text{ percent}', ' \\%'])
        put('percent', wrap(text), f'${float(p):g}\\%$', shown == p)


def units(n):
    for i in range(n):
        value = rng.randint(2, 500)
        shown = value if i % 2 else value + 1
        unit = rng.choice(['cm', 'square units', 'dollars', 'meters', 'hours'])
        put('unit', wrap(f'{shown}\\text{{ {unit}}}'), f'${value}$', shown == value)


def ratios(n):
    for i in range(n):
        a, b, k = rng.randint(1, 12), rng.randint(1, 12), rng.randint(2, 5)
        c = a if i % 2 else a + b
        put('ratio', wrap(f'{c * k}:{b * k}'), f'${a}:{b}$', a == c)


def mixed(n):
    for i in range(n):
        d = rng.randint(2, 9)
        whole, part = rng.randint(1, 12), rng.randint(1, d - 1)
        q = whole + Fraction(part, d)
        shown = q if i % 2 else other(q)
        put('mixed number', wrap(frac(shown, 'frac')), f'${whole}\\frac{{{part}}}{{{d}}}$',
            shown == q)


def powers(n):
    for i in range(n):
        base, e = rng.choice([2, 3, 5, 7, 10]), rng.randint(20, 120)
        f = e if i % 2 else e + 1
        put('power', wrap(f'\\frac{{1}}{{{base}^{{{e}}}}}'), f'${base}^{{-{f}}}$', e == f)


def scientific(n):
    for i in range(n):
        m, e = rng.randint(11, 99), rng.randint(-6, 9)
        q = Fraction(m, 10) * Fraction(10) ** e
        f = e if i % 2 else e + 1
        text = f'{float(q):.7f}'.rstrip('0').rstrip('.') if e < 0 else str(int(q)) \
            if q.denominator == 1 else f'{float(q):g}'
        put('scientific', wrap(f'{m / 10} \\times 10^{{{f}}}'), f'${text}$', e == f)


def signs(n):
    for i in range(n):
        a, r = rng.randint(1, 9), rng.choice([2, 3, 5, 7])
        b = a if i % 2 else a + 1
        text = rng.choice([f'x = {b} \\pm \\sqrt{{{r}}}', f'{b}+\\sqrt{{{r}}}, {b}-\\sqrt{{{r}}}'])
        put('plus-minus', wrap(text), f'${a} \\pm \\sqrt{{{r}}}$', a == b)


def constants(n):
    for i in range(n):
        q = Fraction(rng.randint(1, 20), rng.randint(1, 12))
        shown = q if i % 2 else other(q)
        if shown <= 0:
            shown = q + 1
        text = f'\\frac{{{shown.numerator}\\pi}}{{{shown.denominator}}}'
        put('constant', wrap(text), f'${frac(q, "frac")}\\pi$', shown == q)


def complexes(n):
    for i in range(n):
        a, b, c, d = (rng.randint(1, 9) for _ in range(4))
        e = 0 if i % 2 else 1
        put('complex', wrap(f'({a}+{b}i)({c}+{d}i)'),
            f'${a * c - b * d + e}{a * d + b * c:+d}i$', e == 0)


PUBLIC = 'public.tsv'


def public():
    import os
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), PUBLIC)
    for line in open(path, encoding='utf-8'):
        if line.startswith('kind\t'):
            continue
        kind, output, reference, truth = line.rstrip('\n').split('\t')[:4]
        rows.append(('public', unescape(output), unescape(reference), truth))


def unescape(text):
    out, i = [], 0
    while i < len(text):
        if text[i] == '\\':
            out.append({'\\': '\\', 'n': '\n', 't': '\t', 'r': '\r'}[text[i + 1]])
            i += 2
        else:
            out.append(text[i])
            i += 1
    return ''.join(out)


def escape(text):
    return (text.replace('\\', '\\\\').replace('\n', '\\n').replace('\t', '\\t')
            .replace('\r', '\\r'))


def main():
    from math_verify import parse, verify
    for make, n in ((fractions, 90), (decimals, 60), (grouped, 60), (radicals, 70), (nested, 40),
                    (polynomials, 60), (identities, 60), (tuples, 60), (orders, 50),
                    (intervals, 60), (unions, 40), (equations, 50), (lines, 30),
                    (inequalities, 40), (assignments, 50), (matrices, 40), (percents, 40),
                    (units, 40), (ratios, 40), (mixed, 40), (powers, 30), (scientific, 40),
                    (signs, 30), (constants, 30), (complexes, 30), (public, 0)):
        make(*([n] if n else []))
    print('kind\toutput\treference\texpected\tsource')
    for kind, output, reference, truth in rows:
        verdict = 'pass' if verify(parse(reference), parse(output)) else 'fail'
        print('math', escape(output), escape(reference), truth, f'{kind}; math-verify: {verdict}',
              sep='\t')


if __name__ == '__main__':
    main()
