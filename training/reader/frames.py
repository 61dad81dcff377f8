"""Explicit instructions, built from a core and words that say how long it is valid.

The writers' rules are mostly implicit. Here the same core is a standing rule, a constraint of one
answer, a command for now or a rule that is withdrawn, and only the other words decide which.
"""

from random import Random

from acc.domain.value_objects.reading import Act

#: Combinations that are drawn for each core.
DRAWS = 4
_ANSWERS = (
    """
answer in two sentences|use bullet points|keep it under 100 words|write in British English
end with a question|leave out emojis|call me Sam|cite your sources|use metric units|avoid jargon
reply in French|give prices in euros|start with a summary|show every step|write times in UTC
put code in code blocks|number the steps|use a table|address me as Doctor|spell numbers out
keep the tone formal|add a short title|skip the introduction|write dates as day, month, year
give me one option only|explain it like I am ten|list the risks first|stick to plain text
mention the page number|round to whole numbers|put the answer first|use full names
sign with my initials|write everything in lower case|translate it into Spanish|be brief
give an example|name the file you changed|keep my name out of it|quote the original
use short paragraphs|ask me before you send anything|check the calendar first|tell me the cost
answer with yes or no|use the word client|leave the subject line empty|give sources at the end
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
_TASKS = (
    """
restart the pump|send the mail to Bo|open the valve|book the room for noon|call the supplier
delete the old file|print the invoice|run the tests|close ticket 418|move the meeting to Friday
check the oil level|switch off the heater|order two boxes|upload the photos|read me the last note
turn up the volume|set a timer for ten minutes|update the spreadsheet|find a cheaper flight
show me the map|reply to Ana|stop the conveyor|drain the tank|mute the alarm|add milk to the list
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
_STANDING = (
    """
From now on, {}.|Always {}, please.|{} from now on.|In every reply, {}.|{} in all your answers.
{} until I say otherwise.|For the rest of this chat, {}.|{} every time.|As a rule, {}.
Going forward, {}.|I always want you to {}.|Whenever you write to me, {}.|Please {}, always.
{} each time you answer.|{}, today and in the future.|My standing request: {}.|Make it a habit: {}.
Never forget to {}.|Starting today, {}.|In general, {}.|{} by default.|Remember to {} each time.
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
_ONCE = (
    """
Just this once, {}.|For this answer, {}.|{} this time.|{} here, please.|For now, {}.
In your next message only, {}.|In this mail, {}.|{} for this one.|Could you {} in this reply?
{}, but only today.|For the text below, {}.|In this summary, {}.|{} in the draft you write now.
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
_NOW = (
    """
{} now.|{} right away.|{}, please.|Please {}.|Can you {}?|{} immediately.|Quick, {}.|Go and {}.
OK, {} then.|{} and tell me when it is done.|Could you {} before lunch?|{}!|I need you to {} now.
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
_WITHDRAWN = (
    """
You no longer need to {}.|You don't have to {} any more.|There is no need to {} any longer.
Forget the rule to {}.|Forget that I asked you to {}.|Drop the instruction to {}.
The rule to {} is withdrawn.|I take back the request to {}.|It is no longer necessary to {}.
You needn't {} from now on.|Cancel my rule to {}.|I don't need you to {} any more.
Ignore my earlier rule to {}.|The requirement to {} no longer applies.|Stop trying to {}.
Never mind the rule to {}.|We are done with the rule to {}.|Scrap the rule to {}.
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
_ANSWERS_JAPANESE = (
    """
二文で答えて|箇条書きにして|100字以内に収めて|敬語で書いて|最後に質問を付けて|絵文字は使わないで
出典を示して|メートル法で書いて|専門用語は避けて|英語で返事をして|金額は円で出して|要約から始めて
手順を全部見せて|時刻は24時間表記にして|番号を振って|表にまとめて|下の名前で呼んで|前置きは省いて
結論を先に書いて|小数は四捨五入して|短い段落で書いて|送る前に私に確認して|費用も教えて|例を一つ挙げて
日付は西暦で書いて|固有名詞は正式名称で書いて|はいかいいえで答えて|ひらがなを多めにして|原文を引用して
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
_TASKS_JAPANESE = (
    """
ポンプを再起動して|田中さんにメールを送って|バルブを開けて|会議室を予約して|業者に電話して
古いファイルを消して|請求書を印刷して|テストを実行して|打ち合わせを金曜に移して|油の量を確認して
暖房を切って|二箱注文して|写真を上げて|昨日のメモを読んで|音量を上げて|十分後に知らせて|表を更新して
地図を見せて|返信しておいて|コンベアを止めて|警報を消して|牛乳を買い物リストに足して
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
_STANDING_JAPANESE = (
    """
今後は{}。|これからは{}ください。|いつも{}ください。|毎回{}ね。|以後、{}。|返事は常に{}ください。
どの回答でも{}ください。|私が取り消すまで{}。|これからずっと{}ほしい。|今日からは{}。|原則として{}ください。
基本的に{}ください。|この先も{}ね。|次からは必ず{}。|普段から{}もらえると助かります。
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
_ONCE_JAPANESE = (
    """
今回だけ{}。|この回答では{}ください。|今の質問だけ{}。|このメールでは{}。|次の返事だけ{}ください。
とりあえず今は{}。|下の文章については{}。|今日のところは{}。|この件に限り{}ください。
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
_NOW_JAPANESE = (
    """
今すぐ{}。|{}ください。|{}。|ちょっと{}くれる？|{}もらえますか？|急いで{}。|じゃあ{}。|先に{}ください。
悪いけど{}。|すぐに{}！
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
_WITHDRAWN_JAPANESE = (
    """
もう{}くれなくていいよ。|今後は{}もらわなくて結構です。|{}という決まりは廃止します。
{}と言ったのは取り消します。|{}と頼んだ件はもういいです。|{}という指示は撤回します。
{}というのは忘れてください。|これからは{}もらう必要はありません。|{}という約束はなしで。
{}って言ったけど、もう気にしないで。|{}という規則は本日で終わりです。
""".replace("\n", "|")
    .strip("|")
    .split("|")
)


def framed_instructions(language: str) -> list[tuple[str, Act]]:
    """Return instructions of a language with their acts, always the same ones."""
    if language == "e":
        answers, tasks = _ANSWERS, _TASKS
        frames = (_STANDING, _ONCE, _NOW, _WITHDRAWN)
    else:
        answers, tasks = _ANSWERS_JAPANESE, _TASKS_JAPANESE
        frames = (_STANDING_JAPANESE, _ONCE_JAPANESE, _NOW_JAPANESE, _WITHDRAWN_JAPANESE)
    standing, once, now, withdrawn = frames
    random = Random(0)  # noqa: S311 not for security
    kinds = [(answers, standing, Act.SET), (answers, once, Act.ONCE)]
    kinds += [(tasks, standing, Act.SET), (tasks, now, Act.OTHER)]
    kinds += [(answers, withdrawn, Act.LIFT), (tasks, withdrawn, Act.LIFT)]
    found: list[tuple[str, Act]] = []
    for cores, endings, act in kinds:
        for core in cores:
            for frame in random.sample(endings, DRAWS):
                text = frame.format(core)
                found.append((text[0].upper() + text[1:], act))
    return found
