"""Failures of the model: not there, not complete, not allowed, not known to this vLLM, or not quantised as claimed."""

from collections.abc import Iterable

from ..texts import gettext_noop as _
from .rule import Fix, Match, Rule, Scene, remove, rule, set_to


def _model(found: Match, scene: Scene) -> dict[str, str]:
    named = scene.setting("model_path") or scene.setting("model_tag") or scene.setting("model")
    return {"model": str(named) if named else "the model"}


def _found_dtype(found: Match, scene: Scene) -> Iterable[Fix]:
    return (Fix("set", "dtype", "half"),)


RULES: tuple[Rule, ...] = (
    rule(
        "model_path_missing",
        r"Repo id must be in the form 'repo_name' or 'namespace/repo_name': '(?P<model>[^']*)'",
        _("There is no model at {model} on this host (and it is not a repository name either)."),
        _("Correct model_path, or copy the model to that directory."),
    ),
    rule(
        "model_not_cached",
        r"Cannot find an appropriate cached snapshot folder|Cannot find the requested files in the (?:local|disk) cache"
        r"|outgoing traffic has been disabled|couldn't find them in the cached files",
        _("{model} is not on this host, and it may not be downloaded (offline mode)."),
        _("Correct the name, copy the model to the host first, or allow downloads."),
        params=_model,
    ),
    rule(
        "model_gated",
        r"GatedRepoError|gated repo|401 Client Error|403 Client Error|Access to model .* is restricted",
        _("The hub refuses {model}: it is gated or private, or it does not exist, and no accepted token was sent."),
        _("Accept the model's licence, and give the launch a hub token (HF_TOKEN) as a secret."),
        params=_model,
    ),
    rule(
        "model_repo_not_found",
        r"RepositoryNotFoundError|404 Client Error|is not a valid model identifier|Repository Not Found",
        _("{model} is neither a directory on this host nor a repository on the hub."),
        _("Correct model_path: an absolute directory, or owner/name."),
        params=_model,
    ),
    rule(
        "hub_unreachable",
        r"couldn't connect to 'https?://|(?:Max retries exceeded|NameResolutionError|ConnectionError).*hugg?ingface"
        r"|MaxRetryError.*(?:huggingface|hf\.co|modelscope)",
        _("The host cannot reach the model hub to fetch {model}."),
        _("Copy the model to the host and use its directory as model_path, or open the way to the hub."),
        params=_model,
    ),
    rule(
        "model_incomplete",
        r"does not appear to have a file named (?P<file>\S+?)\.? |Can't load the configuration of"
        r"|No such file or directory: '[^']*config\.json'"
        r"|Cannot find any model weights with|No safetensors? (?:files|weights) found",
        _("The directory of {model} lacks files that a model needs."),
        _("Copy it again, completely (config.json, tokenizer, weights)."),
        params=_model,
    ),
    rule(
        "weights_are_pointers",
        r"HeaderTooLarge",
        _("The weight files are not weights: most likely git-lfs pointers of some 130 bytes."),
        _("Run `git lfs pull` in the model directory, or download it again."),
    ),
    rule(
        "weights_damaged",
        r"SafetensorError|[Ii]ncomplete metadata, file not fully covered|MetadataIncompleteBuffer"
        r"|Error while deserializing header"
        r"|PytorchStreamReader failed",
        _("A weight file is damaged or was not copied to its end."),
        _("Compare the file sizes with the source and copy the short one again."),
    ),
    rule(
        "tokenizer_missing",
        r"Couldn't instantiate the backend tokenizer|Can't load tokenizer for"
        r"|Unable to load vocabulary|tokenizer\.json.*(?:not found|No such file)",
        _("The model directory has no tokenizer that can be loaded."),
        _(
            "Copy tokenizer.json and tokenizer_config.json beside the weights, or set tokenizer_path "
            "to a directory that has them."
        ),
    ),
    rule(
        "tokenizer_too_new",
        r"Tokenizer class (?P<kind>\S+) does not exist or is not currently imported",
        _(
            "This vLLM's transformers library does not know the tokenizer class {kind}: the model "
            "was saved by a newer one."
        ),
        _("Use a newer engine, or set tokenizer_path to the original model."),
    ),
    rule(
        "remote_code_needed",
        r"trust_remote_code=True|requires you to execute the configuration file in that repo|contains custom code",
        _("The model brings its own Python code, which vLLM does not run unasked."),
        _("Read the code, then set trust_remote_code to true."),
        fixes=set_to("trust_remote_code", True),
    ),
    rule(
        "architecture_unknown",
        r"Model architectures? \[?'?(?P<kind>[\w', ]+?)'?\]? (?:are|is"
        r"|failed)[^.]{0,20}(?:not supported|failed to be inspected)",
        _("This vLLM does not know the model architecture {kind}."),
        _("Use a newer engine that lists it, or another model."),
    ),
    rule(
        "architecture_unknown",
        r"model type `?(?P<kind>\w+)`? but Transformers does not recognize",
        _("This vLLM's transformers library does not know the model type {kind}."),
        _("Use a newer engine."),
    ),
    rule(
        "architecture_unknown",
        r"\[?'?(?P<kind>\w+(?:Model|ForCausalLM|ForConditionalGeneration))'?\]? are not supported",
        _("This vLLM cannot serve the architecture {kind}; pooling models need runner pooling in a newer one."),
        _("Use a newer engine, with runner set to pooling for an embedding model."),
        fixes=set_to("runner", "pooling"),
    ),
    rule(
        "architecture_unknown",
        r"GGUF model with architecture (?P<kind>\S+) is not supported",
        _("vLLM cannot load GGUF files of the architecture {kind}."),
        _("Use the safetensors weights of the model."),
    ),
    rule(
        "quantization_config_missing",
        r"Cannot find the config file for (?P<method>\w+)",
        _("quantization says {method}, but the model's weights are not quantised that way: it has no {method} config."),
        _("Remove quantization (vLLM reads it from the model), or use a {method} copy of the model."),
        fixes=remove("quantization"),
    ),
    rule(
        "quantization_mismatch",
        r"Quantization method specified in the model config \((?P<held>[^)]*)\) "
        r"does not match .*?\((?P<asked>[\w-]+)\)",
        _("The model is quantised as {held}, the config asks for {asked}."),
        _("Remove quantization: vLLM reads it from the model."),
        fixes=remove("quantization"),
    ),
    rule(
        "quantization_unsupported_gpu",
        r"(?:quantization method (?P<method>\S+)|Quantization scheme) is not supported for the current GPU\. "
        r"Min(?:imum)? capability: (?P<needed>\d+)\. Current capability: (?P<held>\d+)",
        _("This GPU (compute capability {held}) is too old for the model's quantisation, which needs {needed}."),
        _("Use an AWQ or GPTQ copy of the model, a newer engine, or a newer GPU."),
    ),
    rule(
        "quantization_unsupported_gpu",
        r"(?P<method>\w+) quantization is not supported on (?P<held>gfx\w+)",
        _("{method} weights do not run on this GPU ({held})."),
        _("Set VLLM_ROCM_USE_AITER_FP4BMM=0, or use another quantisation."),
    ),
    rule(
        "dtype_unsupported_gpu",
        r"[Bb]float16 is only supported on GPUs with compute capability of at least (?P<needed>[\d.]+)",
        _("The GPU is too old for bfloat16, which needs compute capability {needed}."),
        _("Set dtype to half."),
        fixes=_found_dtype,
    ),
    rule(
        "dtype_unsupported",
        r"torch\.(?P<dtype>\w+) is not supported for quantization method (?P<method>\w+)",
        _("{method} weights cannot be run as {dtype}."),
        _("Set dtype to half, or remove it and let vLLM choose."),
        fixes=_found_dtype,
    ),
    rule(
        "shard_not_divisible",
        r"Weight (?P<what>input_size_per_partition"
        r"|output_size_per_partition) = (?P<size>\d+) is not divisible by (?P<by>\w+ = \d+)",
        _("With this tensor_parallel_size a weight's share ({size}) does not fit the quantised kernel ({by})."),
        _("Use a smaller tensor_parallel_size with pipeline_parallel_size, or a copy of the model padded for it."),
    ),
    rule(
        "lora_rank",
        r"LoRA rank (?P<rank>\d+) is greater than max_lora_rank (?P<limit>\d+)",
        _("An adapter has rank {rank}, above max_lora_rank {limit}."),
        _("Raise max_lora_rank to {rank}."),
        fixes=lambda found, scene: (Fix("raise", "max_lora_rank", int(found["rank"])),),
    ),
    rule(
        "chat_template_broken",
        r"ChatTemplateResolutionError|chat template .*(?:not found|does not exist|looks like a file path)",
        _("The chat template cannot be found or read."),
        _("Correct chat_template, or use an engine with the transformers release that the model asks for."),
    ),
    rule(
        "disk_full",
        r"\[?[Ee]rrno 28\]?|No space left on device|Not enough free disk space",
        _("The disk is full."),
        _("Make room, or put the model cache (HF_HOME, download_dir) on a larger volume."),
        is_said_softly=True,
    ),
)
