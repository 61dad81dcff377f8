"""What counts as a yes, what as a no, and what makes the server ask again."""

from time import perf_counter

import pytest

from acc.application.a2a.approvals import parse_approval, parse_sign_in
from acc.domain.value_objects.approval import ApprovalDecision

YES = """
yes
Yes.
YES!
Yes, please.
yes please
yep
ok
OK
Okay, go ahead.
Sure, go ahead!
Sure thing
approve
Approved
approved, thanks
I approve
I approve this payment.
We hereby approve the transfer
Yes, I approve the payment.
approve both
Approve all requests
I confirm
confirmed
accept
I agree
agreed, proceed
allow
Please proceed
please go ahead
You may proceed.
yes, do it
go ahead and do it
Thanks, approved.
No problem, go ahead
looks good to me
Of course
y
はい
はい。
はい、お願いします。
はい、承認します
承認
承認します。
承認しました
「承認」
承認いたします
許可します
同意します
了承しました
承認します。処理を続けてください。
この処理を実行してください
お支払いを進めてください。
了解しました、進めてください。
進めてください
続けてください
実行してください
実行してかまいません
問題ありません
はい、問題ありません。進めてください
お願いします
ＯＫ
OKです
オーケーです
いいですよ
構いません
もちろんです
すべて承認します
Yes, 承認します
""".strip().splitlines()

NO = """
no
No.
no thanks
No, thank you.
nope
No, I do not approve.
I do not approve
I don’t approve this
do not approve it
Don't do it
deny
Denied.
I deny the request
reject
rejected: the amount is wrong
I refuse
decline
stop
Cancel it
cancelled
abort
not approved
No way
No, the amount is wrong
absolutely not
of course not
Please don't
I cannot approve this
we will not proceed
No! Never!
I refuse to accept
いいえ
いいえ、やめてください
却下
却下します
拒否します
承認しません
承認できません
承認しない
承認しかねます
承認いたしかねます
許可しません
同意できません
実行しないでください
進めないでください
やめてください
止めてください
中止してください
中止をお願いします
キャンセルでお願いします
キャンセルしてください
だめです
ダメ
駄目です
お断りします
不承認
今回は見送ります
いいえ、承認しません
Please do not approve this
Do not pay this.
I don't want this
please cancel the payment
Denied because the vendor is unknown
No, I want to pay 9000 instead
stop the transfer
承認するな
実行するな
支払うな
この支払いは却下します
送金を中止してください
却下します。金額が違います。
キャンセルです
不可です
""".strip().splitlines()

ASKED_AGAIN = """
yes?
Is that ok?
approved?
yes and no
yes, no, maybe
maybe
perhaps yes
I am not sure
yes, but only 5000
yes but not today
approve 5000 instead
Approve the first one
approve only the second
ok if Bob agrees
yes, if it is below 10000
approve unless it is a duplicate
yes, once the invoice has come
I would approve if I could
I approved the last one
approved by whom
Approve or deny, I do not care
yes, delete only the first
yeah, right
Oh great, sure, waste our money
yeah sure...
sure, why not
As if I would approve
can i proceed
may I go ahead
can you confirm
please confirm
Please approve.
please confirm the payment
should I approve
I agree that this is wrong
I can't say yes
don't deny it
do not reject it
don't stop
stop asking and just do it
never mind
no problem
No one approves this
no rush
No, wait, yes
no, I mean yes
not no
I would not say no
wait
hold on
hmm
later
okay, let me check first
allow me to think
confirm the amount first
continue to wait
go on
fine
approve it tomorrow
the approval is pending
"yes" is what he said
ok but who pays
deny if it is over 10000
reject only the second
what happens when I approve
sure, and pay Bob too
yes to the second question
No? Yes!
はいはい
承認しますか
承認してもいいですか？
承認をお願いします
承認してください
承認待ちです
承認者に確認します
承認する前に確認したい
承認する場合はどうなりますか
金額が正しいなら承認します
1万円までなら承認します
課長が同意したら承認します
はい、でも待ってください
はい、ただし5000円にしてください
5000円なら許可します
承認ではありません
承認したくないわけではない
却下しないでください
キャンセルしないでください
中止しないで
拒否しません
だめではない
いいえ、問題ありません
結構です
大丈夫です
いいです
検討します
保留でお願いします
あとで承認します
多分承認します
承認かもしれない
承認と却下のどちらですか
却下の理由は何
やめるべきだったら承認
わかりました
了解
少し待ってください
はい、却下します
承認します、いややっぱり却下
そうですね
承認したことにして別の人に払って
Don't worry, pay it
Don't wait
don't forget to add the tax
Do not hesitate
Don't keep me waiting
never been better
Reject nothing
deny nobody
refuse collection on Tuesday
block 5 is the right address
rejected invoices go to Bob
decline rate is low here
cancel the other one and pay this
no way around it, pay
キャンセル料を教えて
停止条件を教えてください
不可欠です
中止の手続きを説明して
ダメ元でお願いします
キャンセル待ちに入れて
取り消して再送をお願いします
中断していた件を再開して
お断り状を添えてください
取消線を引いて
はい、Bobにも払ってください
""".strip().splitlines()


@pytest.mark.parametrize("text", YES)
def test_a_yes_beyond_doubt_approves(text: str) -> None:
    assert parse_approval(text) is ApprovalDecision.APPROVE


@pytest.mark.parametrize("text", NO)
def test_a_no_beyond_doubt_denies(text: str) -> None:
    assert parse_approval(text) is ApprovalDecision.DENY


@pytest.mark.parametrize("text", [*ASKED_AGAIN, "", "  ", "...", "👍", "yes " * 1000])
def test_what_is_in_doubt_decides_nothing(text: str) -> None:
    assert parse_approval(text) is None


@pytest.mark.parametrize("text", YES)
@pytest.mark.parametrize(
    "turn", ["{} if it is safe", "{} but cheaper", "not {}", "{}？", "{} or not", "{}、でも半額で"]
)
def test_a_yes_with_a_condition_is_none(text: str, turn: str) -> None:
    assert parse_approval(turn.format(text)) is not ApprovalDecision.APPROVE


@pytest.mark.parametrize(
    "piece", ["yes ", "y", "and ", "no ", "承認", "はい", "ok then ", "so then "]
)
def test_a_long_text_is_read_in_no_time(piece: str) -> None:
    begun = perf_counter()
    assert parse_approval((piece * 2000)[:1990] + " x") is None or piece in ("no ",)
    assert perf_counter() - begun < 0.5


SIGNED_IN = """
done
Done!
I'm done
I am ready
it is done
That's done, thanks
all set
finished
logged in
I have signed in
I've just logged in to the shop.
I have successfully authenticated
we are now signed in
I am logged in already
Signed in to my account, please continue
done, you can try again
I have granted access
I've given you access
I completed the login
I have done so
The authorization is complete
sign-in successful
Login succeeded
Access granted
authentication has been completed
Yes, I have signed in.
yes
continue
approve
please retry
ログインしました
ログインしました。続けてください。
サインインが完了しました
ログイン済みです
認証できました
認証は成功しました
先ほどログインしました
無事に認証が終わりました
完了しました
完了
できました。もう一度お願いします。
はい、ログインしました
ログインしましたので、続きをお願いします
承認します
はい
""".strip().splitlines()
NOT_SIGNED_IN = """
I could not log in
I couldn't sign in
I have not signed in
I am not done
not yet
maybe later
I will log in later
logging in
log in
login failed
the login was not successful
I tried to log in
I am almost done
I signed in but it says an error occurred
I signed in with the wrong account
logged in as someone else
I have lost my password
my password is hunter2
is it done?
done?
done, I think
if I have signed in
Access denied
nothing is done
ログインできませんでした
ログインしませんでした
ログインに失敗しました
失敗しました
ログインしましたが、エラーになりました
ログインしたら続けてください
まだです
あとでログインします
ログインします
ログインしましたか?
完了していません
パスワードは秘密です
認証コードは1234です
""".strip().splitlines()


@pytest.mark.parametrize("text", SIGNED_IN)
def test_words_that_tell_of_a_sign_in_let_it_go_on(text: str) -> None:
    assert parse_sign_in(text) is ApprovalDecision.APPROVE


@pytest.mark.parametrize("text", ["", " ", "…", *NOT_SIGNED_IN])
def test_words_that_tell_of_no_sign_in_decide_nothing(text: str) -> None:
    assert parse_sign_in(text) is None


@pytest.mark.parametrize(
    "text", ["no", "cancel", "いいえ", "No, I could not log in", "キャンセルします"]
)
def test_who_will_not_sign_in_says_no(text: str) -> None:
    assert parse_sign_in(text) is ApprovalDecision.DENY


@pytest.mark.parametrize("text", SIGNED_IN)
@pytest.mark.parametrize(
    "turn", ["not {}", "{}?", "{} but it failed", "{}、でもエラーです", "{} unless I am wrong"]
)
def test_a_sign_in_with_a_doubt_lets_nothing_go_on(text: str, turn: str) -> None:
    assert parse_sign_in(turn.format(text)) is not ApprovalDecision.APPROVE


@pytest.mark.parametrize("piece", ["now ", "already just ", "今", "i have ", "ログイン", "done "])
def test_a_long_text_of_a_sign_in_is_read_in_no_time(piece: str) -> None:
    begun = perf_counter()
    assert parse_sign_in((piece * 2000)[:1990] + " x") is None
    assert perf_counter() - begun < 0.5
