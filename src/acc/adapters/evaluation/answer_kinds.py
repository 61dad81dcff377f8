"""Recognise refusals, "not known" and courtesies in many wordings, English and Japanese."""

import re
from functools import lru_cache

from acc.domain.language import identifiers, normalize_text, numbers

#: In characters. Of a longer answer the start and the end are read.
_MAX_READ_LENGTH = 8_000

_TELL = (
    r"(?:share|disclose|provide|give|reveal|release|discuss|answer|help|say|repeat|name|read"
    r"|tell|pass|comment|talk|speak|confirm|advise|comply|assist|go into|divulge|hand|send|state"
    r"|show|list|quote|mention|publish|spell|do that|do so)"
)
_UNABLE = (
    r"(?:cannot|can['’]?t|can not|could not|couldn['’]?t|may not|must not|mustn['’]?t|will not"
    r"|won['’]?t|would not|wouldn['’]?t|should not|shouldn['’]?t|(?:not|n['’]t"
    r"|never) (?:be )?(?:able|allowed|permitted|authori[sz]ed"
    r"|cleared|free|supposed|at liberty|in a position|willing|going) to|unable to|not mine to"
    r"|rather not|prefer not to|have been (?:asked|told|instructed) not to"
    r"|was (?:asked|told|instructed) not to|agreed not to)"
)
_REFUSAL = re.compile(
    # The author of the answer declines; "the valve cannot release" is a statement.
    rf"(?:\b(?:i|we|sorry|afraid|unfortunately|assistants?)\b[^.!?;\n]{{0,40}}?|^|[.!?:;,\n–—-]\s*)"
    rf"{_UNABLE}\b[^.!?\n]{{0,40}}\b{_TELL}\b"
    rf"|\b(?:i|we) (?:do not|don['’]?t|never) {_TELL}\b"
    r"|\b(?:cannot|can['’]?t|can not|may not|must not|will not|won['’]?t|should not|not allowed to"
    r"|not (?:meant )?to) be (?:\w+ )?(?:shared|disclosed|provided|given|revealed|released"
    r"|discussed"
    r"|repeated|named|told|passed on|published|answered|read out|quoted|divulged)\b"
    r"|\b(?:i|we)(?: have to| must| need to|['’]ll have to| will have to|['’]d better)?"
    r" (?:respectfully |politely )?(?:decline|refuse|pass on that)\b"
    r"|\b(?:is|are|stays?|remains?|['’]s|kept|keep(?:ing)?(?: \w+){0,4}) (?:strictly |still )?"
    r"(?:confidential|secret|private|classified|under wraps|restricted|off[- ]limits"
    r"|not (?:for sharing|public|to be (?:shared|disclosed|given out|released|repeated)))\b"
    r"|\bnot (?:something|information|a detail|one) (?:that )?(?:i|we) (?:can|may|will"
    r"|am able to)\b"
    rf"|(?:\bnot|n['’]t|\bnever) (?:let|allow|permit) (?:me|us)(?: to)? {_TELL}\b"
    r"|\b(?:my|our) lips are sealed\b|\bnot at liberty\b|\bno comment\b|\boff[- ]limits\b"
    r"|\b(?:sorry|apologies)\b[^.!?\n]{0,30}\b(?:but no|can['’]?t|cannot)\b"
    r"|\bkeep(?:ing)? (?:that|this|it)(?: one| quiet)?"
    r" (?:to (?:myself|ourselves)|between|private)\b"
    r"|\b(?:asked|told|instructed) to keep (?:that|this|it) (?:quiet|to (?:myself|ourselves))\b"
    r"|\bnot for (?:me|us) to (?:say|share|disclose|tell)\b|\bthat(?: (?:one|number"
    r"|code|name|figure|detail|information))? stays (?:with|between)\b"
    r"|\b(?:must|has to|have to|needs to) (?:stay|remain|be kept) (?:confidential|secret|private)\b"
    r"|\bwithh(?:old|eld|olding)\b|\bdeclin(?:e|ing) to (?:answer|share|say|comment|disclose)\b"
    r"|(?:お?伝え|開示|共有|お?答え|回答|公開|お?知らせ|提供|お話し?|申し上げ(?:る)?|明か(?:す)?|教え(?:る)?"
    r"|お教え|口外|コメント|ご案内|言及|対応|協力|漏らす|言う|話す|お見せ|お出し)"
    r"(?:する)?(?:こと|わけ|の)?(?:は|が|に|も)?(?:でき|出来|いたし|致し|し|い)?"
    r"(?:(?:ら)?れ)?(?:ません|ない|かねます|かね(?:る|て|ました)|兼ね(?:ます|る)|なく|ねます)"
    r"|(?:お伝え|開示|共有|お?答え|回答|公開|言及|コメント|お話し?|お教え)[^。]{0,8}"
    r"(?:控え|差し控え|遠慮|ご容赦|ご勘弁|わけにはいき|わけにはまいり|わけには参り)"
    r"|控えさせて|差し控え|お断り|断らせ|ご遠慮(?:ください|願)|ご容赦(?:ください|願)"
    r"|(?:非公開|社外秘|秘密|機密|極秘|内密|口止め|門外不出)(?:情報)?(?:です|とな|とされ|なので|のため"
    r"|につき|にして|扱い|事項)",
    re.I,
)
_KNOWN = (
    r"(?:stated|known|confirmed|given|provided|specified|mentioned|available|established|set"
    r"|decided|determined|shared|told|said|recorded|announced|settled|fixed|clear|documented|listed"
    r"|supplied|disclosed|communicated|covered|noted|agreed|discussed"
    r"|brought up|come up|in (?:my|our|the) (?:notes"
    r"|records?|memory|conversation))"
)
_UNKNOWN = re.compile(
    rf"(?:\bnot|n['’]t|\bnever)(?: yet| been| so far| currently| actually| explicitly| ever| be"
    rf"| made){{0,3}} {_KNOWN}\b"
    r"|\b(?:no|without|lack(?:s|ing)?|missing)(?: \w+){0,2} (?:information|records?|values?"
    r"|figures?"
    r"|data|details?|mention|notes?|entry|confirmation|answer|knowledge|indication|idea|clue)\b"
    r"|\bno (?:confirmed|current)\b|\bno (?:idea|clue)\b"
    r"|\bdo(?:es)?(?: not|n['’]t) (?:know|have|recall|remember|see|find|appear|seem to)\b"
    r"|\b(?:i|we) (?:have|had)(?: not|n['’]t) (?:yet )?(?:been|seen|heard|got|received|found"
    r"|any|a)\b"
    r"|\b(?:unknown|unconfirmed|unspecified|unstated|unclear|undecided|undetermined|tbd"
    r"|to be (?:confirmed|decided|determined|announced))\b"
    r"|\b(?:cannot|can['’]?t|can not|could(?: not|n['’]t)|unable to|not able to|hard to"
    r"|impossible to)"
    r" (?:\w+ )?(?:confirm|say|tell|find|determine|verify|recall|know|answer|establish|see)\b"
    r"|\b(?:remains?|is|are|stays?) (?:still )?(?:open|an open question|anyone['’]s guess"
    r"|a blank)\b"
    r"|\bnot (?:sure|certain|aware)\b|^not yet\b|\b(?:nobody|no one|none of (?:us|you))"
    r"(?: has| have| knows?| told| said| mentioned| gave| ever)\b"
    r"|\byet to (?:be (?:confirmed|decided|set|announced|determined)|hear|learn)\b"
    r"|\bi['’]?(?:m| am) (?:not sure|unsure|unaware|in the dark)\b"
    rf"|\b(?:nothing|none)(?: (?:has|have|had|is|was|of (?:that|this|it)))?(?: been| is){{0,2}}"
    rf" {_KNOWN}\b"
    r"|\b(?:nothing|none)(?: \w+){0,3} (?:says|said|stated|mentions|mentioned|indicates|tells|given"
    r"|recorded|on (?:that|this|record|file))\b|\bbeyond what (?:i|we)(?: have"
    r"|['’]ve)? (?:know|been)\b"
    r"|\b(?:you|the user)(?: have|['’]ve)?(?: not|n['’]t) (?:told|said|mentioned|given|specified"
    r"|stated|shared|provided)\b|\b(?:unsure|unaware)\b"
    r"|(?:伺|聞|承|把握|存じ|認識|知ら|聞か|うかが|教わ|知らさ|聞かさ|確認|特定|記録|記載|言及|共有"
    r"|公表|発表|判明|明示|明らかに(?:な)?|はっきり|決ま|決定|確定|提示|示さ|述べら"
    r"|触れら)"
    r"(?:し|さ|っ|い|て|れ|では|は|も|でき|が|取れ|含ま|え){0,6}(?:て(?:は|も)?)?(?:い|おり|あり)?"
    r"(?:ません|ない|ておらず|ず|なく|まら?ない)"
    r"|分か(?:りません|らない|りかね|っていません|っておりません|らず)"
    r"|わか(?:りません|らない|りかね|っていません|っておりません|らず)"
    r"|判り(?:ません|かね)|不明|未確認|未定|未確定|未詳|未公表|未決定|不詳|調査中|確認中"
    r"|(?:情報|記録|記載|データ|資料|手掛かり|手がかり|言及|話|説明|回答|答え|ところ)"
    r"(?:は|が|も)?(?:まだ|特に|現時点で|今のところ|一切|何も)?(?:、)?"
    r"(?:ありません|ない(?:です|ため|の|。|$)|なく|なし|ございません|存在しません|見当たりません"
    r"|見つかりません|出ていません|残っていません)"
    r"|決まって(?:は)?(?:いません|いない|おりません|いるものはありません)|知りません|存じ(?:ません|上げ(?:ません|ておりません))"
    r"|覚え(?:が|は)(?:ありません|ない)|心当たりが?(?:ありません|ない)",
    re.I,
)


_NOTE = r"(?:note|noted|remember|record|recorded|save|saved|keep|kept)"
#: A whole part of a sentence, between commas.
_COURTESY = re.compile(
    r"(?:ok|okay|yes|no|sure|sure thing|alright|all right|right|great|perfect|absolutely|certainly"
    r"|of course|noted|understood|acknowledged|got it|will do|done|roger|roger that|copy that"
    r"|very well|well noted|no problem|my pleasure|nothing to report|you['’]?(?:re| are) welcome"
    r"|hello|hi|good (?:morning|afternoon|evening|night)|(?:kind|best|warm) regards|sincerely"
    r"|have a (?:nice|good|great) (?:\w+ ?){1,2}|as (?:requested|you (?:asked|wish)))"
    r"|(?:many )?(?:thanks|thank you)(?: (?:for|so|very|again|a)(?: [\w'’-]+){0,12})?"
    rf"|i(?:['’]ll| will| shall| have|['’]ve)?(?: now)? {_NOTE} (?:that|this|it|them)(?: in mind"
    r"| for (?:later|you|next time))?"
    r"|(?:please )?(?:let me know|feel free|do(?: not|n['’]t) hesitate)(?: [\w'’]+){0,14}"
    r"|i?\s?hope (?:this|that|it) helps|(?:i['’]?(?: a)?m )?(?:happy|glad) to (?:help|assist)"
    r"(?: \w+){0,4}|(?:i['’]?(?: a)?m )?(?:very |so )?sorry(?: (?:for|about)(?: [\w-]+){1,6})?"
    r"|(?:my |our )?apologies(?: for(?: [\w-]+){1,6})?|i apologi[sz]e(?: for(?: [\w-]+){1,6})?"
    r"|(?:here (?:is|are)|here['’]s) (?:the|a|an|your|my)(?: \w+){1,4}"
    r"|はい|いいえ|ええ|もちろん(?:です)?|なるほど|特になし|(?:それは)?何よりです|その(?:通|とお)りです"
    r"|(?:了解|承知|拝承)(?:です|(?:いた|致)?しました|しております|のうえ)?|(?:かしこまり|畏まり|わかり|分かり)ました"
    r"|[^0-9]{0,24}(?:ありがとう|有難う|有り難う)(?:ございま(?:す|した))?|(?:どうも)?感謝(?:いたし|し)ます"
    r"|(?:覚えて|記憶して|記録して|メモして|控えて|把握して)(?:おき|い|おり)ま(?:す|した)"
    r"|(?:記録|メモ|記憶|確認|把握)(?:(?:いた|致)?し(?:て(?:おき|い)?)?)ま(?:す|した)"
    r"|(?:何か|他に|ほかに|また何か|ご不明|ご質問|ご用)[^0-9]{0,30}(?:(?:お知らせ|お申し付け|お尋ね|ご連絡"
    r"|お聞かせ|お声がけ|聞いて|言って)(?:ください(?:ませ)?|下さい)|ありますか|ございますか|でしょうか)"
    r"|(?:お役に立て|ご?参考にな)[^0-9]{0,8}(?:幸い|嬉しい|うれしい)です"
    r"|(?:大変|誠に)?(?:失礼|申し訳)(?:(?:いた|致)?しました|(?:ありません|ございません)(?:でした)?)"
    r"|(?:以下|次|下記)の(?:通|とお)り(?:です|になります)?|お疲れ(?:様|さま)(?:です|でした)?"
    r"|(?:どうぞ|何卒|今後とも)?(?:よろ|宜)しく(?:お願い(?:(?:いた|致)?します|申し上げます)?)?"
    r"|おはようございます|こんにちは|こんばんは|(?:では|それでは)?良い一日を"
)
_COURTESY_PARTS = re.compile(r"[,、。.!！:：—–]+\s*")


@lru_cache(maxsize=4_096)
def is_courtesy(text: str) -> bool:
    """Return True if a text only thanks, greets, apologises, agrees or offers help."""
    parts = [part.strip() for part in _COURTESY_PARTS.split(_read(text).casefold())]
    return (
        any(parts)
        and all(_COURTESY.fullmatch(part) for part in parts if part)
        and not numbers(text)
        and not identifiers(text)
    )


@lru_cache(maxsize=4_096)
def is_refusal(text: str) -> bool:
    """Return True if a text declines to give something."""
    return _REFUSAL.search(_read(text)) is not None


@lru_cache(maxsize=4_096)
def is_unknown(text: str) -> bool:
    """Return True if a text says that something is not known or was not stated."""
    return _UNKNOWN.search(_read(text)) is not None


def _read(text: str) -> str:
    if len(text) > _MAX_READ_LENGTH:
        half = _MAX_READ_LENGTH // 2
        text = f"{text[:half]}\n{text[-half:]}"
    return normalize_text(text)
