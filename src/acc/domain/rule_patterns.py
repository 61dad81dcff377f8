"""The patterns by which rules, questions, goals and doubts are known in English and Japanese.

Kept apart from the functions that use them, so that a phrase that is missed is one line to add.
"""

import re

from acc.domain.value_objects.rule import RuleKind

_ENGLISH = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
    *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
    "twenty",
)
_TENS = ("thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ONES_JAPANESE = ("", *"一二三四五六七八九")
_TENS_JAPANESE = ("", "十", *(f"{digit}十" for digit in _ONES_JAPANESE[2:]))
COUNT_WORDS = (
    {word: number for number, word in enumerate(_ENGLISH, start=1)}
    | dict(zip(_TENS, range(30, 100, 10), strict=True))
    | {"a single": 1, "single": 1, "a hundred": 100, "one hundred": 100, "百": 100, "二百": 200}
    | {_TENS_JAPANESE[n // 10] + _ONES_JAPANESE[n % 10]: n for n in range(1, 100)}
)
N = (
    r"(\d{1,9}|"
    + "|".join(sorted((w for w in COUNT_WORDS if w.isascii()), key=len, reverse=True))
    + r")"
)
NJ = (
    r"(?<![\d一二三四五六七八九十百])(\d{1,9}|"
    + "|".join(sorted((w for w in COUNT_WORDS if not w.isascii()), key=len, reverse=True))
    + r")"
)
LIMIT = (
    r"(?:under|at most|no more than|not more than|(?:a )?max(?:imum)?(?: of)?|up to|within"
    r"|fewer than|less than|\b(?:no|not|never)(?: \w+){0,5} (?:longer|more) than"
    r"|not exceed|below|limit(?:ed)?(?: \w+){0,3} (?:to|of)|cap(?:ped)?(?: \w+){0,3} (?:to|at"
    r"|of)|hold(?: \w+){0,3} to|keep(?: \w+){0,3} to|stays? (?:under|within|below))"
)
QUOTED = re.compile(r"[\"“]([^\"”]+)[\"”]|「([^」]+)」|『([^』]+)』|'([^']{2,})'(?!\w)|`([^`]+)`")

COUNTED: tuple[tuple[RuleKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.I | re.A))
    for kind, pattern in (
        (RuleKind.MAX_WORDS, rf"{LIMIT} {N} words?\b"),
        (
            RuleKind.MAX_WORDS,
            rf"\b{N}[- ]words?(?: or (?:fewer|less)| (?:max|limit|cap|ceiling|maximum|at most"
            rf"|tops))\b",
        ),
        (
            RuleKind.MAX_CHARACTERS,
            rf"{LIMIT} {N} characters?\b|{NJ}\s*(?:文字|字)(?:以内|以下|まで|未満)",
        ),
        (
            RuleKind.EXACT_BULLETS,
            rf"\bexactly {N} (?:\w+ )?(?:bullets?|bullet points?)\b"
            rf"|箇条書き[^。]{{0,6}}?ちょうど{NJ}|ちょうど{NJ}\s*(?:つ|個|項目|点"
            rf"|行)?の箇条書き",
        ),
        (
            RuleKind.MAX_BULLETS,
            rf"{LIMIT} {N} (?:\w+ )?(?:bullets?|bullet points?)\b|\b{N} (?:bullets?"
            rf"|bullet points?)(?: or (?:fewer|less)| (?:max|limit|cap|maximum|at most|tops))\b",
        ),
        (
            RuleKind.MAX_BULLETS,
            rf"箇条書き[^。]{{0,8}}?{NJ}\s*(?:つ|個|項目|点|行|件)?(?:以内|以下|まで)"
            rf"|{NJ}\s*(?:つ|個|項目|点|行|件)(?:以内|以下|まで)の箇条書き",
        ),
        (
            RuleKind.EXACT_BULLETS,
            rf"\b(?:in|use|as|with|give me|write) {N} (?:\w+ )?(?:bullets|bullet points)\b"
            rf"|箇条書き{NJ}\s*(?:つ|個|項目|点|行|件)で|{NJ}\s*(?:つ|個|項目|点|行"
            rf"|件)の箇条書き",
        ),
        (
            RuleKind.MAX_SENTENCES,
            rf"(?:{LIMIT}|\bin|\bexactly|\bwith) {N} (?:\w+ )?sentences?\b"
            rf"|\b{N}[- ]sentences?(?: or (?:fewer|less)| (?:max|limit|cap|maximum|at most"
            rf"|answer|reply))\b|{NJ}\s*文(?:以内|以下|まで|で)",
        ),
    )
)
ENDING = re.compile(
    r"\b(?:end|close|finish|sign off|conclude|ends|closes|finishes|ending"
    r"|last line)\b[^\"“'`]{0,60}?(?:with|is|be|reads?|:|on)(?: always)?\s*(?:the (?:line|words?"
    r"|phrase) )?[\"“'`]"
    r"|(?:最後|末尾|文末|締め|結び)[^「『。]{0,12}[「『]|[「『][^」』]+[」』]で(?:締め|終え|終わ"
    r"|結)",
    re.I,
)
OPENING = re.compile(
    r"\b(?:start|begin|open|starts|begins|opens|prefix)\b[^\"“'`]{0,60}?(?:with"
    r"|by)\s*(?:the (?:line|words?|phrase|tag) )?[\"“'`]"
    r"|(?:冒頭|先頭|文頭|最初|書き出し)[^「『。]{0,12}[「『]|[「『][^」』]+[」』](?:から"
    r"|で)(?:始め|書き出)",
    re.I,
)
HEADING = re.compile(
    r"\bhead(?:ing|er|ed|ings|ers)\b|\bsections?\b(?=[^.]{0,30}[\"“'`])|見出し", re.I
)
JSON = re.compile(r"(?<![a-z])json(?![a-z])", re.I)
KEY_NOISE = frozenset(
    [
        "and",
        "the",
        "as",
        "in",
        "json",
        "object",
        "only",
        "with",
        "for",
        "of",
        "no",
        "other",
        "nothing",
        "else",
        "please",
    ]
)
NO_JSON = re.compile(
    r"(?:\b(?:not|no|never|stop|without|avoid)|n['’]t)\s+(?:\w+ ){0,3}json"
    r"|json[^。.]{0,12}(?:ない|禁止|不要|やめ)",
    re.I,
)
JSON_KEYS = re.compile(r"(?:keys?|fields?|キー|項目)(.*)$", re.I)
FORBID = re.compile(
    r"(?:\b(?:never|do not|don['’]t|must not|avoid|no|not to|stop|without|refrain from"
    r"|ban(?:ned)?|keep)\b[^.\"“]{0,40}"
    r"\b(?:use|say|write|mention|using|saying|writing|mentioning|words?|phrase|term"
    r"|expression)\b[^.\"“'`]{0,30}[\"“'`])"
    r"|[\"“][^\"”]+[\"”][^.\"“]{0,40}\b(?:is|are) (?:banned|forbidden|off limits|not allowed)"
    r"|[」』][^。「『]{0,16}(?:使わない|使用しない|使用禁止|使わず|使用は禁止|書かない|言わない"
    r"|出さない|載せない|触れない|含めない|挙げない|避け|禁止|用いない|控え)",
    re.I,
)
REQUIRE = re.compile(
    r"\b(?:include|mention|cite|quote|state|carry|carries|contain|contains|reference|references"
    r"|put|add|give|repeat)s?\b"
    r"|必ず[^。]{0,24}(?:含め|記載|明記|入れ|書|添え|付け)|(?:含め|記載し|明記し"
    r"|入れ)て(?:ください|下さい)",
    re.I,
)
EVERY = re.compile(
    r"\b(?:every|each|all|always|any|from now on|from here on|going forward|must)\b|必ず|毎回"
    r"|常に|すべて|全て|今後|以後|以降",
    re.I,
)
SECRET = re.compile(
    r"\b(?:never|do not|don['’]t|must not|may not|not to|no one may|cannot|can['’]t)\b[^.]{0,30}"
    r"\b(?:share|disclose|reveal|give out|give away|read out|pass on|publish|release|repeat|name"
    r"|send|hand out|expose)\b"
    r"|\b(?:is|are|stays?|remains?|keep|kept)\b[^.]{0,40}\b(?:confidential|secret|private"
    r"|off the record|undisclosed)\b"
    r"|(?:開示|共有|公開|口外|漏ら|伝え|教え|明か|回答|お知らせ)(?:し)?(?:ない|ません|てはいけ"
    r"|ては(?:なら|いけ)|禁止|しないで|ないで)|(?:開示|共有|公開|口外)(?:は)?(?:禁止|不可|厳禁)"
    r"|非公開|秘匿|社外秘|秘密(?:です|に|とし|厳守)|内密",
    re.I,
)
SECRET_TAIL = re.compile(
    r"^.*?\b(?:share|disclose|reveal|give out|give away|read out|pass on|publish|release|repeat"
    r"|name|send|hand out|expose)\b"
    r"\s*(.+?)(?:\s+(?:to|with|in|outside|under|until|unless|even)\b.*)?$",
    re.I,
)
SECRET_TOPIC_JAPANESE = re.compile(
    r"^(?:.*、)?(.+?)(?:は|を|について)(?=[^。]{0,24}(?:開示|共有|公開|口外|漏|伝え|教え|明か"
    r"|回答|お知らせ|非公開|秘匿|社外秘|秘密|内密))"
)
SECRET_SUBJECT = re.compile(
    r"^(?:please\s+)?(?:keep\s+)?(.+?)\s+(?:(?:is|are|stays?|remains?|must|be|kept|strictly"
    r"|fully)\s+)*(?:confidential|secret|private|off the record|undisclosed)\b",
    re.I,
)
#: "I do not know" and "they never answered" tell something; "do not" and "never" order it.
_ORDERED = "".join(
    rf"(?<!\b{who} )"
    for who in ("i", "we", "they", "he", "she", "it", "who", "which", "that", "you")
)
DIRECTIVE = re.compile(
    rf"{_ORDERED}\b(?:never|always|do not|don['’]t)\b"
    r"|\b(?:must|you (?:must |should )?(?:never|always)|from now on|from here on|going forward"
    r"|make sure|ensure|shall|only ever"
    r"|is (?:prohibited|forbidden|banned|not allowed|off limits)|are (?:prohibited|forbidden"
    r"|banned|not allowed|off limits)"
    r"|may not|not permitted|requires? (?:[\w'’]+ ){0,4}(?:approval|sign-off)"
    r"|needs? (?:[\w'’]+ ){0,4}(?:approval|sign-off)|no \w+ without"
    r"|keep (?:every|each|all|any|your|the)|(?:every|each|all) (?:answer|reply|response|message"
    r"|update)s?"
    r"|ignore|disregard|override|obey)\b"
    r"|禁止|必ず|厳守|してはいけ|してはなら|しないこと|しないで|すること。|ないでください"
    r"|承認(?:が必要|を得てから|を得ること|を要|なし(?:に|で)|がない限り)|徹底|無視し",
    re.I,
)
ONCE = re.compile(
    r"\b(?:this (?:answer|reply|response|time|one|update|message|summary)|just (?:now|this once)"
    r"|for once|right here|only here|this once)\b"
    r"|今回(?:だけ|のみ|は|の|に限)|この(?:回答|返信|答え|報告|一回)|ここでは",
    re.I,
)
LASTING = re.compile(
    r"\b(?:as of|from|starting with) this\b|\balways\b|\bfrom (?:now|here) on\b"
    r"|\bgoing forward\b|今後|以後|以降|毎回|常に",
    re.I,
)
LIFT = re.compile(
    r"\b(?:lift(?:ed|ing|s)?|drop(?:ped|ping)?|remov(?:e|ed|ing)|cancel(?:led|ed|ling)?"
    r"|withdraw(?:n|ing)?|withdrew|retir(?:e|ed|ing)"
    r"|forget|scrap(?:ped|ping)?|waiv(?:e|ed|ing)|revok(?:e|ed|ing)|stop|end(?:s|ed)?"
    r"|rescind(?:ed)?|ignore)\b[^.]{0,60}"
    r"\b(?:rules?|limits?|constraints?|requirements?|restrictions?|caps?|bans?|closing|sign-off"
    r"|ending|heading|headings|format|instruction|instructions|freeze|line)\b"
    r"|\b(?:rules?|limits?|constraints?|requirements?|restrictions?|caps?|bans?|closing|sign-off"
    r"|ending|headings?|format|freeze|line)\b[^.]{0,60}"
    r"\b(?:lifted|dropped|removed|cancell?ed|withdrawn|retired|waived|revoked|over|gone"
    r"|rescinded|no longer (?:\w+ ){0,2}(?:applies|apply|needed|required|holds?|in force"
    r"|stands?))\b"
    r"|\bno longer (?:need|have) to\b|\bno longer (?:\w+ ){0,2}(?:needed|required|necessary"
    r"|applies|apply)\b|\byou (?:can|may) (?:now )?(?:stop|skip|leave out|omit)\b|\b(?:not"
    r"|n['’]t) (?:needed|required|necessary) (?:any ?more|any longer)\b"
    r"|解除|撤回|取り消|取りやめ|廃止|なくて(?:も)?(?:よい|いい|結構|かまい|構い|大丈夫)"
    r"|もう(?:必要|適用)(?:ありません|ない)|不要(?:です|になり|とし|に)|終了(?:します|しました"
    r"|とします)",
    re.I,
)
QUESTION = re.compile(r"[?？]\s*[\"'”」』)]*$|か[。.]?$")
#: A question about a rule or about what was done; it asks for no form.
ASKS_ABOUT = re.compile(
    r"^(?:(?:so|and|but|ok|wait)[,:]?\s+)?(?:(?:is|are|was|were|did|do|does|has|have|had)\b"
    r"|(?:must|should|shall|may)\s+(?:we|i|they|he|she|it|the)\b).*[?]\W*$"
    r"|(?:です|でした|ました)か\W*$",
    re.I,
)
CONTENT_JAPANESE = re.compile(
    r"(?:を|も|、)[^、。]*(?:教え|まとめ|挙げ|示し|説明|述べ|作成|報告|整理|要約|比較|起案|列挙"
    r"|知らせ|書い|答え)"
)
POLITE_JAPANESE = re.compile(
    r"(?:ください|下さい|ほしい(?:です)?|お願い(?:いた)?します|頼みます)[。.]?$"
)
POLITE = re.compile(r"(?:please|can|could|would|will)\b", re.I)
NEGATIVE_JAPANESE = re.compile(r"ないで|しないよう|ぬよう|控え|避け")
REQUEST = re.compile(
    r"^(?:(?:so|now|then|and|ok|okay|please|meanwhile|finally|again|also|once more)[,:]?\s+)*"
    r"(?:can you|could you|would you|will you|give|tell|list|state|confirm|draft|write"
    r"|summari[sz]e|remind|name|explain|recap|repeat"
    r"|describe|outline|report|provide|show|say|recommend|choose|compare|prepare|restate|walk"
    r"|read|quote|spell|answer|reply|respond|compose|produce|brief|fill|put|mark|present|lay"
    r"|cover|what|who|which|when|where|how|why)\b",
    re.I,
)
GOAL = re.compile(
    r"\b(?:(?:our|the|my|main|overall|primary) (?:\w+ )?(?:goal|objective|aim|mission"
    r"|priority)\b|we (?:need|have|want|aim) to\b|i want (?:us )?to\b|help (?:me|us)\b"
    r"|the job is to\b)"
    r"|(?:目標|目的|ゴール|最優先事項|狙い)は|を目指",
    re.I,
)
DOUBT = re.compile(
    r"\b(?:unconfirmed|not (?:yet )?(?:confirmed|verified|known|clear|sure|certain|established)"
    r"|maybe|perhaps|suspect(?:ed|s)?|might|may be|unclear|unknown|possibly"
    r"|probably|likely|tbd|to be confirmed|unverified|rumou?r|allegedly|preliminary|tentative"
    r"|open question)\b"
    r"|未確認|不明|かもしれ|おそらく|推定|疑い|疑われ|可能性|未定|調査中|と思われ",
    re.I,
)
KIND_HINTS: tuple[tuple[RuleKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.I))
    for kind, pattern in (
        (RuleKind.MAX_WORDS, r"\bwords?\b|\blength\b|語数"),
        (RuleKind.MAX_CHARACTERS, r"\bcharacters?\b|\blength\b|文字|字数"),
        (RuleKind.MAX_SENTENCES, r"\bsentences?\b|文以内|文まで|文数"),
        (RuleKind.MAX_BULLETS, r"\bbullets?\b|箇条書き"),
        (RuleKind.EXACT_BULLETS, r"\bbullets?\b|箇条書き"),
        (
            RuleKind.ENDS_WITH,
            r"\bending\b|\bclosing\b|\bsign-?off\b|\blast line\b|\bend (?:every|each|answers)\b"
            r"|結び|締め|末尾|最後",
        ),
        (
            RuleKind.STARTS_WITH,
            r"\bopening\b|\bfirst line\b|\bprefix\b|\bstart(?:ing)?\b|冒頭|書き出し|先頭",
        ),
        (RuleKind.HEADINGS, r"\bheadings?\b|\bheaders?\b|\bsections?\b|見出し"),
        (RuleKind.JSON, r"\bjson\b"),
    )
)
