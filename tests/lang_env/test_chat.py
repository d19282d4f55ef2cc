"""Chat templates; BOS and EOS exactly once, whatever the tokenizer does by itself."""

import gymnasium as gym
import pytest
from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from lang_env import Problem
from lang_env.chat import render_chat, turn_end
from lang_env.prompt_files import prompt_from
from lang_env.prompts import PromptTemplate, get_prompt
from lang_env.tokenizers import BOS, EOS, PAD, HubTokenizer, build_builtin, load_tokenizer

TURN, OVER = "<|turn|>", "<|end|>"
CHAT = (
    "{% for m in messages %}<|turn|>{{ m['role'] }}{{ '\n' }}{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant{{ '\n' }}{% endif %}"
)
WITH_BOS = "{{ bos_token }}" + CHAT
PROBLEM = Problem("p", "6*7?", "42", "6*7=42\n#### 42")
SHOWN = (Problem("a", "1+1?", "2", "#### 2"), Problem("b", "2+2?", "4", "#### 4"))
ONLY_BOS, BOTH = f"{BOS} $A", f"{BOS} $A {EOS}"
# what the tokenizer adds by itself, its EOS, its chat template, times BOS stands in a chat prompt
BEHAVIOURS = {
    "adds BOS": (ONLY_BOS, EOS, CHAT, 1),
    "adds BOS and EOS": (BOTH, EOS, CHAT, 1),
    "adds none": (None, EOS, CHAT, 0),
    "template has BOS, and it adds BOS": (ONLY_BOS, EOS, WITH_BOS, 1),
    "template has BOS, and it adds none": (None, EOS, WITH_BOS, 1),
    "EOS ends a turn": (None, OVER, CHAT, 0),
}


def build(adds, eos, chat):
    """Returns a tokenizer of single bytes as transformers loads it."""
    backend = build_builtin()
    backend.add_special_tokens([TURN, OVER])
    ids = [(name, backend.token_to_id(name)) for name in (BOS, EOS)]
    single = adds or "$A"
    backend.post_processor = processors.TemplateProcessing(single=single, special_tokens=ids)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token=BOS, eos_token=eos, pad_token=PAD, chat_template=chat
    )


@pytest.fixture(params=BEHAVIOURS, name="case")
def case_(request, tmp_path):
    adds, eos, chat, times = BEHAVIOURS[request.param]
    build(adds, eos, chat).save_pretrained(tmp_path)
    return load_tokenizer(str(tmp_path)), adds, times


def made(tokenizer, **options):
    options = {"problems": [PROBLEM], "max_prompt_tokens": 200, "max_new_tokens": 32} | options
    return gym.make("MathReason-v0", tokenizer=tokenizer, **options).unwrapped


def special(tokenizer, name):
    return tokenizer.backend.convert_tokens_to_ids(name)


def test_a_plain_prompt_is_what_the_tokenizer_makes_of_it_without_eos(case):
    tokenizer, adds, _ = case
    env = made(tokenizer)
    env.reset(seed=0)
    bos, eos = special(tokenizer, BOS), special(tokenizer, EOS)
    by_itself = tokenizer.backend("6*7?\n").input_ids
    assert env.prompt_tokens == [token for token in by_itself if token != eos]
    assert env.prompt_tokens.count(bos) == (adds is not None)
    assert env.stop_token_ids == (tokenizer.eos_token_id,)


def test_a_chat_prompt_has_the_templates_tokens_and_bos_once(case):
    tokenizer, _, times = case
    env = made(tokenizer, chat_template=True)
    env.reset(seed=0)
    bos, turn, over = (special(tokenizer, name) for name in (BOS, TURN, OVER))
    spelt = [turn, *tokenizer.encode("user\n6*7?"), over, turn, *tokenizer.encode("assistant\n")]
    assert env.prompt_tokens == [bos] * times + spelt


def test_an_answer_ends_once(case):
    """At the end of the turn in a chat, else at EOS; the graded text holds neither."""
    tokenizer, *_ = case
    for chat in (False, True):
        env = made(tokenizer, chat_template=chat, prompt={"template": "{question}"}, grader="exact")
        end = env.prompt.end(tokenizer)
        assert end == (special(tokenizer, OVER) if chat else tokenizer.eos_token_id)
        assert env.stop_token_ids == tuple(dict.fromkeys((end, tokenizer.eos_token_id)))
        env.reset(seed=0)
        answer = tokenizer.encode(env.prompt.target(PROBLEM))
        assert not {*env.stop_token_ids, special(tokenizer, BOS)} & {*answer}
        assert env.play(answer)[1:4] == (0.0, False, False)
        _, reward, terminated, _, info = env.step(end)
        assert (reward, terminated, info["extracted"]) == (1.0, True, "42")


def test_the_end_of_a_turn_stops_beside_the_models_own_tokens():
    tokenizer = HubTokenizer(build(ONLY_BOS, EOS, CHAT), "own")
    over, pad = special(tokenizer, OVER), tokenizer.pad_token_id
    assert made(tokenizer, chat_template=True, stop_token_ids=[pad]).stop_token_ids == (over, pad)
    assert made(tokenizer, stop_token_ids=[pad]).stop_token_ids == (pad,)


def test_shown_problems_are_turns_and_a_system_message_comes_first():
    tokenizer = HubTokenizer(build(None, EOS, CHAT), "own")
    template = PromptTemplate("few", "Q: {question}", few_shot=SHOWN, chat=True, system="Be brief.")
    assert template.rendered(PROBLEM, tokenizer) == (
        "<|turn|>system\nBe brief.<|end|>"
        "<|turn|>user\nQ: 1+1?<|end|><|turn|>assistant\n#### 2<|end|>"
        "<|turn|>user\nQ: 2+2?<|end|><|turn|>assistant\n#### 4<|end|>"
        "<|turn|>user\nQ: 6*7?<|end|><|turn|>assistant\n"
    )
    plain = made(tokenizer, prompt=template, chat_template=False)
    plain.reset(seed=0)
    assert tokenizer.decode(plain.prompt_tokens).startswith("Q: 1+1?#### 2\n\n\nQ: 2+2?")


def test_turns_have_no_blank_ends():
    """The template marks where a turn ends; the target of fine-tuning is the shown turn's text."""
    template = PromptTemplate("x", "\n{question}\n", "\n{solution}\n", few_shot=SHOWN, chat=True)
    texts = [message["content"] for message in template.messages(PROBLEM)]
    assert texts == ["1+1?", "#### 2", "2+2?", "#### 4", "6*7?"]
    assert template.target(PROBLEM) == PROBLEM.solution
    assert get_prompt("gsm8k").target(PROBLEM) == f"\n{PROBLEM.solution}\n"


def test_options_reach_the_template():
    tokenizer = HubTokenizer(build(None, EOS, "{{ style }}:" + CHAT), "own")
    env = made(tokenizer, chat_template={"style": "short"})
    env.reset(seed=0)
    assert tokenizer.decode(env.prompt_tokens).startswith("short:user\n")
    written = prompt_from({"template": "{question}", "chat": {"style": "x"}, "system": "s"})
    assert render_chat(tokenizer, written.messages(PROBLEM), written.chat).startswith("x:<|turn|>")


def test_long_chat_prompts_are_filtered():
    tokenizer = HubTokenizer(build(ONLY_BOS, EOS, CHAT), "own")
    long = Problem("long", "1+" * 40 + "1?", "41")
    bare = made(tokenizer, chat_template=True)
    bare.reset(seed=0)
    around = len(bare.prompt_tokens) - len(tokenizer.encode(PROBLEM.question))
    env = made(tokenizer, problems=[PROBLEM, long], chat_template=True, max_prompt_tokens=60)
    assert (env.num_problems, env.num_filtered) == (1, 1)
    fits = around + len(tokenizer.encode(long.question))
    options = {"problems": [PROBLEM, long], "chat_template": True}
    assert made(tokenizer, max_prompt_tokens=fits, **options).num_filtered == 0
    assert made(tokenizer, max_prompt_tokens=fits - 1, **options).num_filtered == 1


def test_a_template_that_does_not_end_turns_has_no_end():
    tokenizer = HubTokenizer(
        build(None, EOS, "{% for m in messages %}{{ m.content }}{% endfor %}"), "o"
    )
    assert turn_end(tokenizer) is None
    assert made(tokenizer, chat_template=True).stop_token_ids == (tokenizer.eos_token_id,)


def test_what_cannot_be_a_chat_is_named():
    bare = HubTokenizer(build(None, EOS, None), "bare")
    with pytest.raises(ValueError, match="tokenizer 'builtin' has no chat template"):
        made("builtin", chat_template=True)
    with pytest.raises(ValueError, match="chat template of tokenizer 'bare' failed"):
        made(bare, chat_template=True)
    refusing = HubTokenizer(build(None, EOS, "{{ raise_exception('no system role') }}"), "r")
    with pytest.raises(ValueError, match=r"'r' failed: no system role"):
        made(refusing, chat_template=True)
    with pytest.raises(ValueError, match="chat_template must be true, false or options"):
        PromptTemplate("x", "{question}", chat="yes")
    with pytest.raises(ValueError, match="'tokenize' is set by the environment"):
        get_prompt({"template": "{question}", "chat": {"tokenize": True}})
