"""The vocabulary of a GGUF with tokenizer.ggml.model = llama as a SentencePiece BPE model."""

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as proto

PIECE = proto.ModelProto.SentencePiece
KINDS = {
    1: PIECE.NORMAL,
    2: PIECE.UNKNOWN,
    3: PIECE.CONTROL,
    4: PIECE.USER_DEFINED,
    5: PIECE.UNUSED,
    6: PIECE.BYTE,
}


def field(reader, name, default=None):
    name = "tokenizer.ggml." + name
    return reader.fields[name].contents() if name in reader.fields else default


def processor(reader):
    """The normaliser is the identity, as in Llama's, Mistral's and Gemma's own models."""
    tokens, scores = field(reader, "tokens"), field(reader, "scores")
    kinds = field(reader, "token_type")
    model = proto.ModelProto()
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    trainer.model_type = proto.TrainerSpec.BPE
    trainer.vocab_size = len(tokens)
    trainer.byte_fallback = 6 in kinds
    for name in ("bos", "eos", "unk", "pad"):
        key = {"unk": "unknown", "pad": "padding"}.get(name, name)
        at = field(reader, key + "_token_id", -1)
        setattr(trainer, name + "_id", at)
        if at >= 0:
            setattr(trainer, name + "_piece", tokens[at])
    normalizer.name = "identity"
    normalizer.add_dummy_prefix = field(reader, "add_space_prefix", True)
    normalizer.remove_extra_whitespaces = False
    normalizer.escape_whitespaces = True
    unknown = field(reader, "unknown_token_id", -1)
    for i, (token, score, kind) in enumerate(zip(tokens, scores, kinds)):
        piece = model.pieces.add()
        # The converter writes user-defined pieces with plain spaces.
        piece.piece = token.replace(" ", "\u2581") if kind == 4 else token
        piece.score = score
        piece.type = PIECE.UNKNOWN if i == unknown else KINDS[kind]
    made = sentencepiece.SentencePieceProcessor()
    made.LoadFromSerializedProto(model.SerializeToString())
    return made
