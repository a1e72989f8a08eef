"""The banned words and old names, each with the word to use and the reason: the one list that `make lint` checks.

Remove the last use of a word before you add it. A space in a pattern matches the end of a line as well.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A word that the project does not use."""

    pattern: str
    """A regular expression for whole words, in any case."""
    use: str
    reason: str


_OLD = "old name"
_ARCHAIC = "archaic"
_IDIOM = "idiom"
_CALQUE = "a construction of another language"

BANNED = (
    # Old names: each concept has one name.
    Entry("lanes?", "ordering key", _OLD),
    Entry("markers?(?:_| )topics?", "checkpoint topic, checkpoint_topic", "Kafka's markers are those of transactions"),
    Entry("execute_groups?", "execute_runs", "a group is Kafka's consumer group"),
    Entry(r"groups:\s*\d+", "workers", "a group is Kafka's consumer group"),
    Entry("FinalError", "NonRetryableError", _OLD),
    Entry("endless_retries", "unlimited_retries", _OLD),
    Entry("resolve resume", "resolve skip-lost", "it gives messages up, which 'resume' hides"),
    Entry("start-over", "resolve seek", _OLD),
    Entry("left jobs?", "orphaned jobs", _OLD),
    Entry("turn(?:s|ed|ing)? away", "rejected by a rule", _OLD),
    # Words that few people use at work, or that a reader takes literally.
    Entry("amid|amidst", "during, within", _ARCHAIC),
    Entry("in vain", "without success", _ARCHAIC),
    Entry("lest", "so that ... not", _ARCHAIC),
    Entry("owe[sd]?", "due, missing", _IDIOM),
    Entry("mend(?:s|ed|ing)?", "fix, repair", _ARCHAIC),
    Entry("(?:is|are|was|were) away", "is unavailable", _IDIOM),
    Entry("anew", "again, from the start", _ARCHAIC),
    Entry("for(?: |_)ever", "indefinitely, never ends", _ARCHAIC),
    Entry("whom", "name the actor in another clause", _ARCHAIC),
    Entry("whoever", "the client that ..., whatever ...", _ARCHAIC),
    Entry("beside", "next to, with, during", _ARCHAIC),
    Entry("go(?:es|ing)?(?: |_)on|went(?: |_)on", "continue", _IDIOM),
    Entry("work(?:s|ed|ing)?(?: |_)through", "process", _IDIOM),
    Entry("made(?: |_)again", "re-created, repeated", "a topic is re-created; a call is repeated"),
    Entry("(?:re)?judg(?:e|es|ed|ing|e?ments?)", "validate, check, decide", "a rule decides; it has no opinion"),
    Entry("hand(?:s|ed|ing)? (?:it |them )?over|hand(?:s|ing)?(?:_|-)over", "submit, dispatch, start", _IDIOM),
    # The user account of Unix is in quotation marks.
    Entry("somebody|(?<![`\"'])nobody", "someone, no one; or name the actor", "the actor has a name"),
    # The idiom "stands for" and the adjective "stand-alone" are the field's.
    Entry("stands?(?! for|-)|stood|(?<!-)standing", "is, has, are", _IDIOM),
    Entry("after this page", "This page explains ..., Use this guide to ...", _CALQUE),
    Entry("without end", "indefinitely, unlimited", _CALQUE),
    Entry("takes? the right", "requires the right", _CALQUE),
    Entry("in the median", "median", _CALQUE),
    Entry("behind the last", "after the last", _CALQUE),
    Entry("of (?:its|their|your|our|one's) own", "its own X, a separate X, your own X", _CALQUE),
    Entry("holds (?:for|only)", "applies to", _CALQUE),
    Entry("that lasts?", "persistent, long; is longer than", _CALQUE),
    Entry("as far as", "if, as long as; name the limit", _CALQUE),
    Entry("nevertheless", "anyway, but", _ARCHAIC),
    Entry("does not fit|never fits", "does not apply, does not match", _CALQUE),
    Entry(r"some \d+", "about", _CALQUE),
    Entry("needs you", "Needs attention", _CALQUE),
    Entry("what waits", "name it: the messages, the runs", _CALQUE),
    Entry("what is there", "the current state, the existing rows", _CALQUE),
    Entry("also without", "even without", _CALQUE),
    Entry(r"for long(?=\s*[.,;|])", "for a long time; name the time", _CALQUE),
    Entry("finally fail(?:s|ed)|failed finally", "fails without a further retry", _CALQUE),
    Entry("what became of", "the outcome of, how ... ended", _IDIOM),
    Entry("in one another", "nested", _CALQUE),
    Entry("the other one", "another + noun; name it", _CALQUE),
    Entry("says|said", "reports, contains, shows", "a program or a file does not speak"),
)
