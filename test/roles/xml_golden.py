#!/usr/bin/env python3
"""What Python's expat says of small XML documents: their names and contents, in order.

Usage: test/roles/xml_golden.py >test/roles/xml_golden.txt     (shares no code with the library)

Per document: `document BYTES`, the bytes and a line end; then a line each, as met: `key NAME` of a
start tag or an attribute, `value TEXT` of an attribute or of contents (trimmed, but for CDATA), with
\\n and \\\\ for line ends and backslashes.
"""
import random
import xml.parsers.expat

WRITTEN = [
    '<a/>',
    '<?xml version="1.0" encoding="UTF-8"?>\n<!-- before -->\n<!DOCTYPE r [\n<!ELEMENT r ANY>\n]>\n'
    '<r>text</r>\n',
    '<r a="1" b = \'two "2"\'>\n  <x:y/>one<!-- a > b --> two <![CDATA[ <raw> & ]]></r>',
    '<r>1 &lt; 2 &amp;&#65;<é ü="&quot;"/>\n</r>',
    '<?xml version="1.0"?><r><?target do this?><b >x</b ></r>',
]


def made(rng, depth=0):
    """A random element."""
    name = rng.choice(["item", "word_17", "ns:tag", "a.b-c", "x"])
    parts = [f"<{name}"]
    for key in rng.sample(["id", "lang", "n"], rng.randrange(3)):
        quote = rng.choice("\"'")
        parts.append(f"{rng.choice([' ', chr(10)])}{key}={quote}{rng.choice(['', '7', 'a b', '&gt;'])}{quote}")
    if rng.randrange(4) == 0:
        return "".join(parts) + rng.choice(["/>", " />"])
    parts.append(">")
    for _ in range(rng.randrange(4)):
        kind = rng.randrange(6 if depth < 3 else 3)
        if kind == 0:
            parts.append(rng.choice(["text", " two words ", "\n", "7", "a &amp; b"]))
        elif kind == 1:
            parts.append("<!-- note -->")
        elif kind == 2:
            parts.append("<![CDATA[x < y]]>")
        else:
            parts.append(rng.choice(["", "\n  "]) + made(rng, depth + 1))
    return "".join(parts) + f"</{name}>"


def events(document):
    found, held = [], []

    def flush(trim=True):
        text = "".join(held)
        held.clear()
        text = text.strip(" \t\r\n") if trim else text
        if text:
            found.append("value " + text.replace("\\", "\\\\").replace("\n", "\\n"))

    def start(name, attributes):
        flush()
        found.append("key " + name)
        for i in range(0, len(attributes), 2):
            found.append("key " + attributes[i])
            found.append("value " + attributes[i + 1])

    parser = xml.parsers.expat.ParserCreate()
    parser.ordered_attributes = True
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: flush()
    parser.CharacterDataHandler = held.append
    parser.CommentHandler = lambda _: flush()
    parser.ProcessingInstructionHandler = lambda *_: flush()
    parser.StartCdataSectionHandler = flush
    parser.EndCdataSectionHandler = lambda: flush(False)
    parser.Parse(document, True)
    return found


def main():
    rng = random.Random(7)
    print("# Names and contents of small XML documents, by Python's expat (test/roles/xml_golden.py).")
    for document in WRITTEN + [made(rng) for _ in range(40)]:
        print(f"document {len(document.encode())}\n{document}")
        print("\n".join(events(document)))


if __name__ == "__main__":
    main()
