"""Answers that speak to the judge: found by fixed patterns, in English and Japanese.

A flag is a note on the record, never a verdict. Patterns are read on several forms of the text, so
that spacing, width, look-alike letters, invisible characters and base64 do not hide one.
"""

import base64
import binascii
import re
import unicodedata

_LONGEST = 20_000
#: Letters of other scripts that look Latin.
_LOOK_ALIKE = str.maketrans(
    {
        **dict(zip("\u0430\u0435\u0456\u043e\u0440\u0441\u0443\u0445", "aeiopcyx", strict=True)),
        **dict(zip("\u0455\u0458\u0501\u051b\u051d\u04bb\u0475\u04cf", "sjdqwhvl", strict=True)),
        **dict(zip("\u0410\u0412\u0415\u0406\u041a\u041c\u041d\u041e", "ABEIKMHO", strict=True)),
        **dict(zip("\u0420\u0421\u0422\u0425\u0405\u0408\u03bf\u03b1", "PCTXSJoa", strict=True)),
        **dict(zip("\u03bd\u03b9\u03c1\u03c4\u03c5\u03b5\u0131\u0261", "viptueig", strict=True)),
    }
)
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_TAGS = re.compile("[\U000e0020-\U000e007e]+")
_SPACED = re.compile(r"(?<!\w)(?:[a-z][ ._*-]){4,}[a-z](?!\w)", re.I)
_ENCODED = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")

_JUDGE = r"(?:judge|grader|evaluator|examiner|assessor|rater|scorer|reviewing model)"
_PATTERNS: dict[str, tuple[str, ...]] = {
    "overrides instructions": (
        r"\b(?:ignore|disregard|forget|override|bypass|drop|skip)\b[^.\n]{0,40}"
        r"\b(?:previous|prior|above|earlier|preceding|all|any|your|these|those|system|original|the)\b"
        r"[^.\n]{0,30}\b(?:instruction|instructions|prompt|prompts|rubric|criteria|guidelines|"
        r"directions|schema|evaluation)\b",
        r"\b(?:ignore|disregard|forget)\b[^.\n]{0,12}\b(?:everything|anything|all)\b[^.\n]{0,20}"
        r"\b(?:above|before|said|told|so far)\b",
        r"\bnew (?:instructions?|system prompt|task|role)(?: for (?:you|the \w+))?\s*[:：]",
        r"\bfrom now on,? you(?: are|'re| will| must| shall)\b",
        r"\byou are (?:now|no longer)\b[^.\n]{0,60}\b(?:judge|grader|evaluator|assistant|model|dan|"
        r"bound|restricted|required)\b",
        r"\bsystem (?:override|message|prompt|notice)\b\s*[:：]",
        r"(?:これまで|以前|上記|前述|先ほど|今まで|すべて|全て|元)の?(?:すべての|全ての)?"
        r"(?:指示|命令|プロンプト|ルール|規則|採点基準|評価基準)[^。\n]{0,12}"
        r"(?:無視|忘れ|破棄|取り消|従わな|上書き)",
        r"(?:指示|命令|プロンプト|採点基準|評価基準)(?:は|を)?(?:すべて|全て)?(?:無視|忘れ|破棄|上書き)",
        r"(?:新しい|追加の)(?:指示|命令|システムプロンプト)\s*[:：]",
        r"(?:あなたは|君は)(?:今から|これから|もはや|以後)",
    ),
    "speaks to the judge": (
        rf"\b(?:dear|note (?:to|for)|attention|message (?:to|for)|hey|to) (?:the |all |any )?"
        rf"(?:llm |ai |model )?{_JUDGE}s?\b",
        rf"\b(?:llm|ai|model)[ -]?{_JUDGE}\b",
        rf"\b{_JUDGE}s?\b[,:：]? (?:please |you )?(?:(?:must|should|shall|will) )?"
        r"(?:give|award|assign|mark|rate|score|accept|note that)\b",
        r"\bif you are (?:an? |the )?(?:ai|llm|language model|judge|grader|evaluator)\b",
        r"(?:採点者|評価者|審査員|判定者|ジャッジ|採点AI|評価AI|審査AI)(?:の?(?:方|皆様|皆さん|さん))?"
        r"(?:へ|に告ぐ|、|は、|に伝え|への(?:注意|指示|メッセージ|お願い))",
    ),
    "asks for a score": (
        r"\b(?:give|award|assign|rate|score|grade|mark)\b[^.\n]{0,40}"
        r"\b(?:10 ?/ ?10|10 out of 10|ten out of ten|full (?:marks|score|points)|(?:a |the )?"
        r"(?:perfect|maximum|highest|top|best)(?: possible)? (?:score|scores|marks?|rating|grade|"
        r"points))\b",
        r"\b(?:give|award|assign|rate|score|grade)\b[^.\n]{0,30}\b(?:this|my|the) "
        r"(?:answer|response|reply|output)\b[^.\n]{0,30}\b(?:10|ten|100|full|high|highest)\b",
        r"\b(?:mark|count|treat|label|classify)\b[^.\n]{0,40}\b(?:claims?|statements?|everything|"
        r"sentences?|constraints?|rules?)\b[^.\n]{0,30}\bas (?:fully )?(?:supported|kept|true|"
        r"correct|verified|satisfied)\b",
        r"\b(?:give|award|assign|rate|score|mark)\b[^.\n]{0,30}\b(?:other|all other|competing|"
        r"remaining) (?:answers?|responses?|agents?)\b",
        r"\banswer [a-h]\b[^.\n]{0,40}\b(?:deserves|should (?:get|receive|be (?:scored|rated))|"
        r"is the best|wins)\b",
        r"(?:満点|最高点|最高評価|10点|１０点|10/10|100点)(?:を|に|で|と)?[^。\n]{0,12}"
        r"(?:付け|つけ|与え|採点|評価|ください|下さい|すべき|してほしい|お願い)",
        r"(?:主張|記述|内容|文)(?:は|を)?(?:すべて|全て|みな)?[^。\n]{0,10}"
        r"(?:supported|裏付けあり|裏付けられた|支持|正しい)(?:もの)?(?:と|に)(?:して|判定|判断|扱)",
        r"(?:ほか|他)の(?:回答|答え|エージェント)[^。\n]{0,14}(?:0点|零点|低く|減点|下げ)",
        r"(?:高く|高めに)(?:評価|採点)して",
    ),
    "brings a verdict": (
        r"[\"'“”]?(?:verdict|verdicts|scores?|claims|relevance|answer_quality|"
        r"instruction_following|coherence|instructs_judge)[\"'“”]\s*[:：]\s*[\[{\d\"“]",
        r"\b(?:final|official|judge'?s?|evaluation) (?:verdict|scores?|result|decision)\s*[:：=]",
        r"(?:最終|公式)(?:判定|評価|スコア|採点(?:結果)?)\s*[:：]",
        r"(?:判定|採点)結果\s*[:：]\s*(?:合格|満点|supported|10)",
    ),
    "poses as a role": (
        r"<\|[^|>\n]{1,40}\|>",
        r"\[/?(?:INST|SYS|SYSTEM)\]|<</?SYS>>",
        r"</?(?:system|assistant|user|human|developer|instructions?|s|bos|eos|start_of_turn|"
        r"end_of_turn|tool_response|function_results)(?:\s[^>\n]{0,40})?>",
        r"(?m)^\s*(?:#{1,4}\s*)?(?:system|assistant|developer|human|user)\s*(?:message|prompt)?"
        r"\s*[:：](?=\s)",
        r"(?m)^\s*(?:システム|アシスタント|ユーザー|開発者)\s*[:：]",
        r"\b(?:end|close|begin|start) (?:of )?(?:the )?(?:answer|data|untrusted (?:data|text)|"
        r"fence|document)\b\s*(?:[-=#>\]]{2,}|[:：]|\n|$)",
        r"(?:回答|データ|答え)(?:は)?ここ(?:まで|で終わり)",
        r"(?:={3,}|-{3,}|#{3,})\s*(?:end|system|instructions?|終了|以上)\b",
    ),
    "asks to leak": (
        r"\b(?:reveal|print|repeat|show|output|leak|disclose|dump)\b[^.\n]{0,30}\b(?:your|the) "
        r"(?:system prompt|hidden prompt|instructions|rubric|canonical memory|fence|schema)\b",
        r"(?:システムプロンプト|採点基準|評価基準|正準メモリ|内部の指示)(?:を|の内容を)[^。\n]{0,10}"
        r"(?:表示|出力|教え|開示|見せ)",
    ),
}
_COMPILED = {
    flag: tuple(re.compile(pattern, re.I) for pattern in patterns)
    for flag, patterns in _PATTERNS.items()
}


def steering_flags(answer: str) -> tuple[str, ...]:
    """Return the ways in which a text tries to steer who judges it, none for plain answers."""
    text = answer[:_LONGEST]
    found: dict[str, None] = {}
    hidden = _TAGS.findall(text)
    if hidden:
        found["hides text"] = None
    for form in _forms(text, hidden):
        for flag, patterns in _COMPILED.items():
            if flag not in found and any(pattern.search(form) for pattern in patterns):
                found[flag] = None
    return tuple(found)


def _forms(text: str, hidden: list[str]) -> list[str]:
    """Return the text as it is read by a person, and what it holds in disguise."""
    bare = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).translate(_LOOK_ALIKE)
    forms = [bare]
    spaced = _SPACED.sub(lambda run: re.sub(r"[ ._*-]", "", run[0]), bare)
    if spaced != bare:
        # Words that were spelled apart have lost the spaces between them too.
        forms += [re.sub(r" {2,}", " ", spaced), re.sub(r"[ ._*-]", "", bare)]
    forms += ["".join(chr(ord(mark) - 0xE0000) for mark in run) for run in hidden]
    forms += filter(None, map(_decoded, _ENCODED.findall(bare)))
    return forms


def _decoded(run: str) -> str:
    try:
        text = base64.b64decode(run + "=" * (-len(run) % 4), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return text if text.isprintable() else ""
