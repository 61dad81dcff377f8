"""Parallel analysis of one text, with the branch of every event (section 5.2).

Both analyzers run at the same time, with the same initial state, in separate branches. An event has
the branch in `event.branch`. The example prints the interleaved events, the result of each
analyzer, and a key that both write and a merge rule adds up.

Run it: python examples/parallel_text_analysis.py
"""

import asyncio
import re
from collections import Counter

from acc import BaseAgent, ParallelAgent, RunContext, Runner

TEXT = "新機能はとても便利で嬉しい。設定の画面で設定の項目が分かりにくいが、設定の後は快適。"


class Analyzer(BaseAgent):
    """Base class of both analyzers; in production two Agents with a model."""

    async def run(self, ctx: RunContext) -> str:
        """Analyze in three steps and yield to the other branch after each."""
        for step in range(3):
            await ctx.progress(f"{self.name} {step + 1}/3")
            await asyncio.sleep(0)
        ctx.state["characters_read"] = ctx.state.get("characters_read", 0) + len(ctx.message)
        result = self.analyze(ctx.message)
        ctx.state[self.name] = result
        return str(result)

    def analyze(self, text: str) -> list[str]:
        """Return the result of the analysis."""
        raise NotImplementedError


class SentimentAnalyzer(Analyzer):
    """テキスト感情を分析します。"""

    def analyze(self, text: str) -> list[str]:
        """Count positive and negative words."""
        positive = len(re.findall("便利|嬉しい|快適", text))
        negative = len(re.findall("分かりにくい|不便", text))
        return ["positive" if positive > negative else "negative", f"{positive}:{negative}"]


class KeywordExtractor(Analyzer):
    """テキストからキーワードを抽出します。"""

    def analyze(self, text: str) -> list[str]:
        """Return at most three words in kanji, the most frequent first."""
        return [word for word, _ in Counter(re.findall(r"[一-龠]{2,}", text)).most_common(3)]


text_analysis_parallel = ParallelAgent(
    name="parallel_text_analyzer",
    description="感情分析とキーワード抽出を並列実行します。",
    sub_agents=[
        SentimentAnalyzer(name="sentiment_analyzer"),
        KeywordExtractor(name="keyword_extractor"),
    ],
    merge={
        "characters_read": "sum"
    },  # without a rule, two branches that write one key are an error
)


async def main() -> None:
    """Stream the run and print the branch of each event."""
    runner = Runner(text_analysis_parallel)
    order: list[str] = []
    async for event in runner.stream(user_id="u1", session_id="s1", message=TEXT):
        if event.branch:
            order.append(event.branch.rpartition(".")[2])
            print(f"{event.branch:<45} {event.kind:<9} {event.text}")
    state = await runner.state(user_id="u1", session_id="s1")
    print(dict(state))

    assert order[:4] == ["sentiment_analyzer", "keyword_extractor"] * 2, (
        "the branches are interleaved"
    )
    assert state["sentiment_analyzer"] == ["positive", "3:1"]
    assert state["keyword_extractor"] == ["設定", "新機能", "便利"]
    assert state["characters_read"] == 2 * len(TEXT)


if __name__ == "__main__":
    asyncio.run(main())
