"""Patterns of the parsers for format rules, policies and questions, English and Japanese.

They are separate from the functions that use them: supporting one more phrase is one more line.
"""

import re

from acc.domain.value_objects.format_rule import RuleKind

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
    r"|(?:\b(?:not|never)|n['’]t)(?: \w+){0,3} (?:over|beyond|exceed)|make (?:that|it)"
    r"|below|limit(?:ed)?(?: \w+){0,4} (?:to|of|is|now|at)|cap(?:ped)?(?: \w+){0,3} (?:to|at"
    r"|of)|hold(?: \w+){0,3} to|keep(?: \w+){0,3} to|stays? (?:under|within|below))"
)
QUOTED = re.compile(r"[\"“]([^\"”]+)[\"”]|「([^」]+)」|『([^』]+)』|'([^']{2,})'(?!\w)|`([^`]+)`")

COUNTED: tuple[tuple[RuleKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.I | re.A))
    for kind, pattern in (
        (RuleKind.MAX_WORDS, rf"{LIMIT} {N} words?\b"),
        (RuleKind.MAX_WORDS, rf"\bword limit (?:to|is|of)(?: now)? {N}\b"),
        (
            RuleKind.MAX_WORDS,
            rf"\b{N}[- ]words?(?: or (?:fewer|less)| (?:max|limit|cap|ceiling|maximum|at most"
            rf"|tops))\b",
        ),
        (
            RuleKind.MAX_CHARACTERS,
            rf"{LIMIT} {N} characters?\b|{NJ}\s*(?:文字|字)(?:以内|以下|まで|未満|を超えない)",
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
            rf"|箇条書き{NJ}\s*(?:つ|個|項目|点|行|件)(?:で|に|と)|{NJ}\s*(?:つ|個|項目|点|行"
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
#: What to write in place of a forbidden word.
REPLACEMENT = re.compile(
    r"(?:;|,|\.|:|—|\bbut\b|\bwe\b|\binstead\b)\s*(?:(?:we|please|just|instead|but"
    r"|and)[,:]?\s+){0,2}"
    r"(?:say|use|write|call (?:it|them|him|her))\s+[\"“']([^\"”']+)[\"”']"
    r"|[\"“']([^\"”']+)[\"”'] instead\b"
    r"|(?:ず|代わりに|ではなく|なく)[、に]?[「『]([^」』]+)[」』](?:と|を|に)",
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
    r"\b(?:never|do not|don['’]t|must not|may not|not to|no one may|nobody may)\b[^.]{0,30}"
    r"\b(?:share|disclose|reveal|give out|give away|read out|pass on|publish|release|repeat|name"
    r"|send|hand out|expose)\b"
    r"|\b(?:is|are|stays?|remains?|be|keep|kept)\b(?!(?: \w+){0,2} (?:not|longer))[^.]{0,40}"
    r"\b(?:confidential|secret|off the record|undisclosed)\b|\bkeep\b[^.]{0,40}\bprivate\b"
    r"|\bmust not be (?:shared|disclosed|revealed|published|given out)\b"
    r"|(?:開示|共有|公開|口外|漏ら|伝え|教え|明か|回答|お知らせ)(?:し)?(?:ない|ません|てはいけ"
    r"|ては(?:なら|いけ)|禁止|しないで|ないで)|(?:開示|共有|公開|口外)(?:は)?(?:禁止|不可|厳禁)"
    r"|非公開(?!企業|会社)|秘匿|社外秘|秘密(?:です|に|とし|厳守)|内密",
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
    r"|回答|お知らせ|非公開(?!企業|会社)|秘匿|社外秘|秘密|内密))"
)
SECRET_SUBJECT = re.compile(
    r"^(?:please\s+)?(?:keep\s+)?(.+?)\s+(?:(?:is|are|stays?|remains?|must|be|kept|strictly"
    r"|fully)\s+)*(?:confidential|secret|private|off the record|undisclosed)\b",
    re.I,
)
#: Where an order can begin: "they never answered" is a statement, "never answer" is an order.
_BEGIN = (
    r"(?:^|[.:;,—–-]\s+|\b(?:please|kindly|and|but|so|also|then|just|you|should|shall|must|to)\s+)"
)
_NOT_THEM = "".join(rf"(?<!\b{who} )" for who in ("i", "we", "they", "he", "she", "it"))
DIRECTIVE = re.compile(
    rf"{_BEGIN}(?:never|always|do not|don['’]t)\s+(?!mind\b|worry\b|know\b|\w+ed\b)"
    rf"|{_BEGIN}(?:ignore|disregard|override|obey|make sure|ensure)\b"
    rf"|\bmust (?:not|never|always)\b|{_NOT_THEM}\bmust\b(?! have\b)"
    rf"|{_NOT_THEM}\bmay not\b|\b(?:shall|only ever|not permitted|going forward)\b"
    r"|\bfrom (?:now|here) on,?\s+(?!(?:the|our|its|their|an?|it|we|i|he|she|they)\b)(?-i:[a-z])"
    r"|\b(?:is|are) (?:prohibited|forbidden|banned|not allowed|off limits)\b"
    r"|\b(?:not allowed to|not want you to|under no circumstances)\b|n['’]t want you to\b"
    r"|\b(?:requires?|needs?) (?:[\w'’]+ ){0,4}(?:approval|sign-off)\b|\bno \w+ without\b"
    r"|\bkeep (?:every|each|all|any|your|the)\b"
    r"|\b(?:every|each|all) (?:answer|reply|response|message|update)s?\b"
    r"(?! (?:was|were|has|have|had|came|went)\b)"
    r"|^(?:please\s+)?(?:avoid|stick to|call me|prefer|check with (?:me|us)|ask (?:me|us) before"
    r"|keep (?:it|them|things|answers?|replies|responses)|only (?:use|answer|reply)"
    r"|use \w+ (?:units?|english|spelling|dates?|format|style|times?)"
    r"|(?:answer|reply|respond|write) in \w+ (?:english|language|style|tone)"
    r"|no (?!one\b|problem|worries|idea|news|change|update|more\b|longer\b)\w+"
    r"(?! (?:is|are|was|were|has|have)\b))\b"
    r"|禁止|必ず|厳守|[てで]は(?:いけ|なら|なり|だめ|ダメ)|[さわかせえ]ず、[^。]{0,24}(?:ください|下さい)|しないこと|ないこと。?$"
    r"|(?<!気に)(?<!心配)しないで|すること。|(?<!気にし)(?<!心配し)ないでください"
    r"|(?:避け|控え|伏せ)て(?:ください|下さい)"
    r"|(?:敬語|丁寧語|簡潔|税込|常体|英語|日本語)[^。]{0,8}(?:答え|回答|表記|書い|返)"
    r"|前に[^。]{0,8}確認(?:して|を取|すること)"
    r"|承認(?:が必要|を得てから|を得ること|を要|なし(?:に|で)|がない限り)"
    r"|徹底(?:して(?:ください|下さい)|すること|をお願い)|無視し(?:て(?:ください|下さい)|ないで)",
    re.I,
)
#: Reports of what others want or say are not rules of the author.
HEARSAY = re.compile(
    r"^(?!.*\b(?:i|we) (?:say|said))[^,.;\"“]*\b(?:says|said|wrote|writes|states|claims|insists"
    r"|told (?:me|us))\b|\baccording to\b|^(?:please )?(?:translate|proofread)\b"
    r"|と(?:言|話|述べ|主張|要求|希望)(?:って|して|しており|っており)?(?:い|お)|によると",
    re.I,
)
#: "Do not end with …" negates the rule that it names.
NEGATED = re.compile(
    r"\b(?:do not|never|must not|not to|no need to|avoid|without|refrain from|stop)\b|n['’]t\b",
    re.I,
)
NEGATED_JAPANESE = re.compile(
    r"ないで|しないこと|不要|要りません|いりません|必要は?(?:ない|ありません)|やめ"
)
#: Describes another object than the answer: "The abstract is limited to 250 words."
DESCRIPTION = re.compile(
    r"^(?:the|an?|our|this|that|its|their|my)\s+(?!(?:\w+\s+)?(?:answers?|repl(?:y|ies)|responses?"
    r"|messages?|updates?|last|closing|first|final|opening|template|format|length|limit|words?"
    r"|sentences?|bullets?|rule|line)\b)"
    r"|^(?![^はが]{0,24}(?:回答|返答|返信|答え|報告|文面|箇条書き|メッセージ|今後|毎回|締め|結び|冒頭"
    r"|末尾|最後|見出し|文字数|字数|上限))(?!.*(?:禁止|必ず|厳守))[^、。]{1,24}(?:は|が)[^。]*(?:です|ます|でした|ました)。?$",
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
    r"|\bgoing forward\b|今後|以後|以降|毎回|常に|前に[^。]{0,8}確認",
    re.I,
)
_RULE_NOUN = (
    r"(?:rules?|limits?|constraints?|requirements?|restrictions?|caps?|bans?|closing|sign-off"
    r"|ending|headings?|format|freeze|instructions?|line)"
)
_ENDED = (
    r"(?:lifted|dropped|removed|cancell?ed|withdrawn|retired|waived|revoked|over|gone|rescinded)"
)
REVOCATION = re.compile(
    r"\b(?:lift(?:ing|s)?|drop(?:ping)?|remov(?:e|ing)|cancel(?:ling)?|withdraw(?:ing)?"
    rf"|retir(?:e|ing)|forget|scrap|waiv(?:e|ing)|revoke|rescind"
    rf"|ignore)\b[^.]{{0,60}}\b{_RULE_NOUN}\b"
    rf"|\b(?:lifted|dropped|removed|withdrew|waived|revoked)\b[^.]{{0,60}}\b{_RULE_NOUN}\b"
    rf"|\b(?:end|stop) (?:the|this|that)\b[^.]{{0,40}}\b{_RULE_NOUN}\b"
    r"|\bstop (?:using|ending|closing|starting|adding|including|citing|writing|quoting)\b"
    rf"|\b{_RULE_NOUN}\b[^.]{{0,60}}\b(?:{_ENDED}|no longer (?:\w+ ){{0,2}}(?:applies|apply|needed"
    r"|required|holds?|in force|stands?))\b"
    r"|\bno longer (?:needs?|wants?|have to|wanted)\b"
    r"|\bneed not\b[^.]{0,60}\b(?:any ?more|any longer)\b"
    r"|\bno longer (?:\w+ ){0,2}(?:needed|required|necessary"
    r"|applies|apply|confidential|secret)\b"
    r"|\byou (?:can|may) (?:now )?(?:stop|skip|leave out|omit)\b"
    r"|\byou (?:can|may) (?!not\b)[^.?]{1,60}\b(?:now|again)\b|\ballowed again\b"
    r"|\bno more (?:\w+s|\w+ limit)\b|\bno more [\"“']"
    r"|\b(?:there['’]s|there is) no \w+ limit\b"
    r"|(?:\bnot|n['’]t) (?:needed|required|necessary) (?:any ?more|any longer)\b"
    r"|(?:\bnot|n['’]t) (?:apply|need|hold)\b[^.]{0,60}\b(?:any ?more|any longer)\b"
    r"|\bfeel free to\b|\b(?:fine|ok|okay) (?:to \w+[^.]{0,40} )?(?:now|again)\b"
    r"|\bcan be \w+ed (?:now|again)\b"
    rf"|\b(?:take back|disregard|never mind|skip) the\b[^.]{{0,40}}\b{_RULE_NOUN}\b"
    rf"|\b{_RULE_NOUN} is off\b|\bno need to\b|\b(?:drop|skip|leave (?:off|out)) the [\"“']"
    r"|\bstop saying\b|(?:\bdo not|n['’]t)\b[^.]{0,60}\b(?:any ?more|any longer)\b"
    r"|解除|撤回|取り消|取りやめ|廃止|なくて(?:も)?(?:よい|いい|結構|かまい|構い|大丈夫)"
    r"|もう(?:必要|適用)(?:ありません|ない)|もう[^。]{0,6}ないでください|不要(?:です|になり|とし|に)|要りません"
    r"|[てで]も?(?:構いません|かまいません|いいです|よいです|大丈夫です)|許可します"
    r"|(?:制限|規則|ルール|指定|文言|締め|[」』])[^。]{0,8}(?:なくし|外し|やめ)"
    r"|(?:制限|規則|ルール|指定|運用|凍結)[^。]{0,8}終了(?:します|しました|とします)",
    re.I,
)
#: Mentions the end of a rule without revoking it.
NOT_REVOKED = re.compile(
    r"\b(?:not|never)\s+(?:yet\s+|been\s+|be\s+|to\s+)*(?:lift|drop|remov|cancel|withdr|retir|waiv"
    r"|revok|rescind|forget)|n['’]t\s+(?:been\s+|be\s+)?(?:lift|drop|remov|cancel|withdr|forget)"
    r"|\b(?:will|would|might|could|may) be\b"
    r"|\b(?:wants?|wanted|plans?|asked|asks|suggests?|proposes?|hopes?|likes?) (?:\w+ )?to\b"
    r"|(?:解除|撤回|廃止|終了)は?(?:しません|していません|されていません|されません|しない|できません"
    r"|する予定|予定|を検討)",
    re.I,
)
ALL_RULES = re.compile(
    r"\b(?:all|every|any) (?:of )?(?:the |my |these |earlier )*"
    r"(?:rules|limits|restrictions|constraints)\b"
    r"|(?:すべて|全て|全部)の(?:制限|規則|ルール|制約)",
    re.I,
)
QUESTION = re.compile(
    r"(?<!, right)(?<!, correct)(?<!, ok)(?<!, yes)[?？]\s*[\"'”」』)]*$|か[。.]?$", re.I
)
#: A question about a rule or about past actions; it does not set a format.
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
NEGATIVE_JAPANESE = re.compile(r"ないで|しないよう|ぬよう|控え|避け|[さわかせえ]ず、")
REQUEST = re.compile(
    r"^(?:(?:so|now|then|and|ok|okay|please|meanwhile|finally|again|also|once more)[,:]?\s+)*"
    r"(?:can you|could you|would you|will you|give|tell|list|state|confirm|draft|write"
    r"|summari[sz]e|remind|name|explain|recap|repeat"
    r"|describe|outline|report|provide|show|say|recommend|choose|compare|prepare|restate|walk"
    r"|read|quote|spell|answer|reply|respond|compose|produce|brief|fill|put|mark|present|lay"
    r"|cover)\b(?! (?:\w+ ){0,2}(?:is|are|was|were)\b)",
    re.I,
)
#: Requests to remember something are neither questions nor rules.
REMEMBER_JAPANESE = re.compile(r"(?:覚えて|記録|控えて|記憶|メモして|承知おき|ご留意)")
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
        (RuleKind.FORBID, r"\bban\b|\b(?:that|this) word\b|禁止|その(?:語|言葉|表現)"),
    )
)
