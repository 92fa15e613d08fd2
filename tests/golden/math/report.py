#!/usr/bin/env python3
"""Prints README.md's tables from pairs.tsv: where math-verify disagrees with the truth.

usage: report.py PATH-OF-milepost-verifier > table.md
"""
import collections
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PAIRS = os.path.join(HERE, 'pairs.tsv')


def main():
    rows = [line.rstrip('\n').split('\t') for line in open(PAIRS, encoding='utf-8')][1:]
    ours = subprocess.run([sys.argv[1], 'check', '--cases', PAIRS], capture_output=True, text=True)
    wrong = {int(n) for n in re.findall(r'^line (\d+):', ours.stdout, re.M)}
    table = collections.OrderedDict()
    differing = []
    for number, (_, output, reference, truth, source) in enumerate(rows, 2):
        kind, verdict = source.split('; math-verify: ')
        we_err, they_err = number in wrong, verdict != truth
        counts = table.setdefault(kind, [0, 0, 0, 0, 0])
        counts[0] += 1
        counts[1] += we_err == they_err
        counts[2] += we_err
        counts[3] += they_err and truth == 'pass'
        counts[4] += they_err and truth == 'fail'
        if we_err != they_err:
            differing.append((kind, output, reference, truth, 'Milepost' if they_err else 'math-verify'))
    print('| kind | pairs | both say the same | Milepost wrong | math-verify misses | math-verify accepts a wrong one |')
    print('|---|---|---|---|---|---|')
    for kind, c in table.items():
        print(f'| {kind} | {c[0]} | {c[1]} | {c[2]} | {c[3]} | {c[4]} |')
    total = [sum(c[i] for c in table.values()) for i in range(5)]
    print(f'| all | {total[0]} | {total[1]} | {total[2]} | {total[3]} | {total[4]} |')
    with open(os.path.join(HERE, 'disagreements.tsv'), 'w', encoding='utf-8') as f:
        f.write('kind\toutput\treference\ttruth\tright\n')
        for row in differing:
            f.write('\t'.join(row) + '\n')


if __name__ == '__main__':
    main()
