//! Proves the catalogue: that every line of the data is sound, how names find models, and what calls cost.

use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{ThinkingEffort, TokenUsage};

fn resolve(provider: &str, id: &str) -> Option<(Matched, String, Option<ModelCost>)> {
    parts(Catalogue::builtin().resolve(provider, id))
}

fn parts(found: Option<Resolution>) -> Option<(Matched, String, Option<ModelCost>)> {
    found.map(|found| (found.matched, found.model.id.clone(), found.model.cost.clone()))
}

fn builtin(provider: &str, id: &str) -> ModelInfo {
    let found = Catalogue::builtin().resolve(provider, id).expect("a model of the data");
    assert_eq!(found.matched, Matched::Exact);
    ModelInfo::clone(&found.model)
}

fn declaration(fields: Value) -> ModelDeclaration {
    serde_json::from_value(fields).expect("a declaration")
}

fn declared(fields: Value) -> Result<ModelInfo, String> {
    let declaration = declaration(fields);
    let (provider, id) = (declaration.provider.clone(), declaration.id.clone());
    let catalogue =
        Catalogue::with_declared(vec![declaration]).map_err(|error| error.to_string())?;
    let found = catalogue.resolve(&provider, &id).expect("what was declared");
    Ok(ModelInfo::clone(&found.model))
}

fn dollars(input: f64, output: f64) -> ModelCost {
    ModelCost {
        input,
        output,
        cache_read: None,
        cache_write: None,
        cache_write_1h: None,
        tiers: Vec::new(),
    }
}

const DATA: &str = include_str!("models.json");

#[test]
fn the_packed_catalogue_equals_the_file() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/data/catalogue/models.json.lz4");
    #[expect(clippy::disallowed_methods, reason = "a switch of this test, not of the engine")]
    if std::env::var_os("UPDATE_CATALOGUE").is_some() {
        std::fs::write(path, lz4_flex::compress_prepend_size(DATA.as_bytes())).unwrap();
    }
    let unpacked = lz4_flex::decompress_size_prepended(&std::fs::read(path).unwrap()).unwrap();
    assert!(
        unpacked == DATA.as_bytes(),
        "run `UPDATE_CATALOGUE=1 cargo nextest run --no-default-features packed` and commit the file"
    );
}

#[test]
fn the_whole_data_file_parses() {
    let data: DataFile = serde_json::from_str(DATA).expect("the data file");
    assert_eq!(data.models, *BUILTIN);
    let file: Value = serde_json::from_str(DATA).expect("the data file");
    assert_eq!(data.models.len(), file["models"].as_array().expect("models").len());
    assert_eq!(data.models.len(), DATA.lines().count() - 3, "one line per model");
}

#[test]
fn the_data_is_sorted_and_names_no_model_twice() {
    assert!(
        BUILTIN.is_sorted_by(|a, b| (&a.provider, &a.id) < (&b.provider, &b.id)),
        "sorted by provider and id, strictly"
    );
    let mut names = HashSet::new();
    for model in BUILTIN.iter() {
        for name in names_of(model) {
            assert!(names.insert((&model.provider, name)), "`{name}` names two models");
        }
    }
}

#[test]
fn every_line_of_the_data_is_sound() {
    let apis = [
        "anthropic-messages",
        "bedrock-converse",
        "google-generative-ai",
        "openai-chat",
        "openai-responses",
    ];
    let file: Value = serde_json::from_str(DATA).expect("the data file");
    for model in BUILTIN.iter() {
        let name = format!("{} {}", model.provider, model.id);
        assert!(apis.contains(&model.api.as_deref().unwrap_or_default()), "{name}: API");
        assert!(!model.name.is_empty() && !model.id.is_empty(), "{name}: names");
        assert!(model.context_window > 0, "{name}: window");
        assert!((1..=model.context_window).contains(&model.max_output_tokens), "{name}: output");
        assert!((1..=model.context_window).contains(&model.prompt_limit()), "{name}: prompt");
        assert_eq!(model.input.first(), Some(&Modality::Text), "{name}: input");
        assert!(model.reasoning || model.thinking.is_none(), "{name}: thinking");
        assert!(file["header"]["sources"][&model.source].is_object(), "{name}: source");
        for (field, price) in model.cost.iter().flat_map(ModelCost::prices) {
            assert!(price.is_finite() && price > 0.0, "{name}: {field} `{price}` (0 is unknown)");
        }
        for tier in model.cost.iter().flat_map(|cost| &cost.tiers) {
            assert!(tier.input_tokens_above < model.context_window, "{name}: tier");
        }
    }
}

#[test]
fn the_required_providers_are_in_the_data() {
    let mut counts = BTreeMap::<&str, usize>::new();
    for model in BUILTIN.iter() {
        *counts.entry(&model.provider).or_default() += 1;
    }
    for (provider, at_least) in
        [("anthropic", 15), ("openai", 30), ("google", 15), ("open", 40), ("openrouter", 100)]
    {
        assert!(counts.get(provider).copied().unwrap_or_default() >= at_least, "{provider}");
    }
    assert!(DATA.len() < 160_000, "{} bytes: leave something out", DATA.len());
}

#[test]
fn a_models_own_name_finds_all_its_facts() {
    assert_eq!(
        builtin("anthropic", "claude-opus-4-6"),
        ModelInfo {
            provider: "anthropic".into(),
            id: "claude-opus-4-6".into(),
            api: Some("anthropic-messages".into()),
            name: "Claude Opus 4.6".into(),
            context_window: 1_000_000,
            max_input_tokens: None,
            max_output_tokens: 128_000,
            input: vec![Modality::Text, Modality::Image],
            reasoning: true,
            thinking: Some(ThinkingCapability {
                adaptive: true,
                budget: true,
                efforts: vec![
                    ThinkingEffort::Low,
                    ThinkingEffort::Medium,
                    ThinkingEffort::High,
                    ThinkingEffort::Max,
                ],
                can_disable: true,
            }),
            temperature: true,
            cost: Some(ModelCost {
                cache_read: Some(0.5),
                cache_write: Some(6.25),
                cache_write_1h: Some(10.0),
                ..dollars(5.0, 25.0)
            }),
            aliases: Vec::new(),
            retires: None,
            source: "default".into(),
        }
    );
}

#[test]
fn models_that_refuse_a_temperature_are_marked() {
    let takes = |provider: &str, id: &str| builtin(provider, id).temperature;
    assert_eq!(
        [
            takes("anthropic", "claude-opus-4-6"),
            takes("anthropic", "claude-opus-4-7"),
            takes("anthropic", "claude-fable-5"),
            takes("amazon-bedrock", "us.anthropic.claude-sonnet-5"),
            takes("openrouter", "anthropic/claude-haiku-5.5"),
            takes("openai", "gpt-4.1"),
            takes("openai", "gpt-5"),
            takes("openai", "o3"),
            takes("openrouter", "openai/gpt-5.4"),
            takes("groq", "openai/gpt-oss-120b"),
            takes("moonshotai", "kimi-k3"),
        ],
        [true, false, false, false, false, true, false, false, false, true, false]
    );
}

#[test]
fn prompts_are_capped_where_the_provider_caps_them() {
    assert_eq!(builtin("openai", "gpt-5").prompt_limit(), 272_000);
    assert_eq!(builtin("openai", "gpt-5.4").prompt_limit(), 922_000);
    assert_eq!(builtin("anthropic", "claude-sonnet-4-5").prompt_limit(), 200_000);
}

#[test]
fn a_date_or_latest_on_an_undated_model_finds_it_with_its_price() {
    let sonnet = builtin("anthropic", "claude-sonnet-4-5");
    assert_eq!(sonnet.retires.as_deref(), Some("2026-11-30"));
    let expected = Some((Matched::Suffix, sonnet.id, sonnet.cost));
    for id in [
        "claude-sonnet-4-5-20250929",
        "claude-sonnet-4-5@20250929",
        "claude-sonnet-4-5-latest",
        "claude-sonnet-4-5@latest",
        "claude-sonnet-4-5:beta",
        "claude-sonnet-4-5-20250929:thinking",
    ] {
        assert_eq!(resolve("anthropic", id), expected, "{id}");
    }
    assert_eq!(
        resolve("openai", "gpt-5-2025-08-07"),
        Some((Matched::Suffix, "gpt-5".into(), builtin("openai", "gpt-5").cost))
    );
    assert_eq!(
        resolve("google", "gemini-2.0-flash-001"),
        Some((
            Matched::Suffix,
            "gemini-2.0-flash".into(),
            builtin("google", "gemini-2.0-flash").cost
        ))
    );
}

#[test]
fn an_undated_name_finds_the_dated_model_with_its_price() {
    let sonnet = builtin("anthropic", "claude-sonnet-4-20250514");
    let expected = Some((Matched::Suffix, sonnet.id, sonnet.cost.clone()));
    for id in ["claude-sonnet-4", "claude-sonnet-4@20250514", "claude-sonnet-4-2025-05-14"] {
        assert_eq!(resolve("anthropic", id), expected, "{id}");
    }
    assert_eq!(
        resolve("anthropic", "claude-sonnet-4-0"),
        Some((Matched::Alias, "claude-sonnet-4-20250514".into(), sonnet.cost))
    );
    let bedrock = builtin("amazon-bedrock", "anthropic.claude-haiku-4-5-20251001-v1:0");
    assert_eq!(
        resolve("amazon-bedrock", "anthropic.claude-haiku-4-5"),
        Some((Matched::Suffix, bedrock.id, bedrock.cost))
    );
}

#[test]
fn another_days_snapshot_has_the_limits_but_no_price() {
    assert_eq!(
        resolve("anthropic", "claude-sonnet-4-20270101"),
        Some((Matched::Suffix, "claude-sonnet-4-20250514".into(), None))
    );
}

#[test]
fn a_dated_model_with_prices_of_its_own_is_not_taken_for_the_undated_one() {
    assert_eq!(
        resolve("openai", "gpt-4o-2024-05-13"),
        Some((Matched::Exact, "gpt-4o-2024-05-13".into(), Some(dollars(5.0, 15.0))))
    );
}

#[test]
fn a_routers_tag_keeps_the_limits_and_drops_the_price() {
    assert_eq!(
        resolve("openrouter", "openai/gpt-5:free"),
        Some((Matched::Suffix, "openai/gpt-5".into(), None))
    );
}

#[test]
fn unknown_models_and_providers_find_nothing() {
    for (provider, id) in [
        ("anthropic", "claude-9"),
        ("anthropic", "gpt-5"),
        ("anthropic", ""),
        ("anthropic", "-latest"),
        ("", "claude-opus-4-6"),
        ("mine", "claude-opus-4-6"),
        ("openai", "gpt-5-2025-13-07"),
    ] {
        assert_eq!(resolve(provider, id), None, "{provider} {id}");
    }
    let catalogue = Catalogue::builtin();
    assert_eq!(catalogue.resolve_for("mine", Api::OpenaiChat, "no-such-model"), None);
    assert_eq!(catalogue.resolve_for("mine", Api::Scripted, "claude-opus-4-6"), None);
    assert_eq!(catalogue.resolve_for("mine", Api::OpenaiChat, ""), None);
}

#[test]
fn an_unknown_provider_gets_the_facts_of_its_api_without_a_price() {
    let catalogue = Catalogue::builtin();
    let found = catalogue.resolve_for("mine", Api::AnthropicMessages, "claude-opus-4-6");
    let expected = ModelInfo {
        provider: "mine".into(),
        cost: None,
        ..builtin("anthropic", "claude-opus-4-6")
    };
    let expected = Resolution { model: Arc::new(expected), matched: Matched::OtherProvider };
    assert_eq!(found, Some(expected));
    assert_eq!(
        catalogue
            .resolve_for("mine", Api::OpenaiChat, "claude-opus-4-6")
            .map(|found| found.model.id.clone()),
        Some("anthropic/claude-opus-4.6".into())
    );
    for (requested, id) in [
        ("gpt-5", "gpt-5"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("openai/gpt-5", "gpt-5"),
        ("llama3.3:70b", "llama-3.3-70b-instruct"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b-instruct"),
        ("gpt-oss:20b", "gpt-oss-20b"),
    ] {
        let found = catalogue.resolve_for("mine", Api::OpenaiChat, requested).expect("a model");
        let name = last_part(&found.model.id);
        assert_eq!((found.matched, name, &found.model.cost), (Matched::OtherProvider, id, &None));
    }
}

#[test]
fn a_known_provider_keeps_its_prices_whatever_its_api() {
    let found = Catalogue::builtin().resolve_for("openai", Api::OpenaiChat, "gpt-4.1");
    assert_eq!(
        parts(found),
        Some((Matched::Exact, "gpt-4.1".into(), builtin("openai", "gpt-4.1").cost))
    );
}

#[test]
fn a_declaration_overrides_the_fields_it_names_and_no_other() {
    let fields = json!({
        "provider": "openai", "id": "gpt-4.1", "contextWindow": 50_000,
        "cost": { "input": 1.0, "output": 2.0 },
    });
    assert_eq!(
        declared(fields),
        Ok(ModelInfo {
            context_window: 50_000,
            cost: Some(dollars(1.0, 2.0)),
            source: "declared".into(),
            ..builtin("openai", "gpt-4.1")
        })
    );
}

#[test]
fn a_declared_model_beats_the_builtin_one_under_its_dated_name_too() {
    let fields = json!({ "provider": "openai", "id": "gpt-4.1", "maxOutputTokens": 7 });
    let catalogue = Catalogue::with_declared(vec![declaration(fields)]).expect("a catalogue");
    let found = catalogue.resolve("openai", "gpt-4.1-2025-04-14").expect("a model");
    assert_eq!((found.matched, found.model.max_output_tokens), (Matched::Suffix, 7));
    assert_eq!(parts(catalogue.resolve("openai", "gpt-5")), resolve("openai", "gpt-5"));
}

#[test]
fn a_new_model_needs_a_window_and_gets_safe_defaults() {
    let fields = json!({ "provider": "mine", "id": "house-7b", "contextWindow": 20_000 });
    let mut expected = ModelInfo::safe_defaults("mine", Api::OpenaiChat, "house-7b", 20_000);
    assert_eq!((expected.max_output_tokens, expected.cost.as_ref()), (5_000, None));
    expected.source = "declared".into();
    expected.api = None;
    assert_eq!(declared(fields), Ok(expected));
    assert_eq!(
        declared(json!({ "provider": "mine", "id": "house-7b" })),
        Err("`models[0].contextWindow`: is missing, and `house-7b` is not in the catalogue; pass its \
             window in tokens"
            .into())
    );
}

#[test]
fn a_declared_provider_with_an_api_needs_no_window_for_a_known_model() {
    let fields = json!({ "provider": "mine", "id": "gpt-5", "api": "openai-chat" });
    let expected = ModelInfo {
        provider: "mine".into(),
        api: Some("openai-chat".into()),
        cost: None,
        source: "declared".into(),
        ..builtin("openai", "gpt-5")
    };
    assert_eq!(declared(fields), Ok(expected));
}

#[test]
fn a_model_declared_free_costs_nothing() {
    let cost = json!({ "input": 0.0, "output": 0.0 });
    let model =
        declared(json!({ "provider": "mine", "id": "x", "contextWindow": 20_000, "cost": cost }));
    assert_eq!(model.map(|model| model.cost_of(&TokenUsage::new(9, 9, 0, 0, 0), 0)), Ok(Some(0.0)));
}

#[test]
fn a_wrong_declaration_is_refused_with_the_fields_path() {
    let refuse = |mut fields: Value| {
        fields["provider"] = json!("mine");
        fields["id"] = json!("x");
        declared(fields).expect_err("a refusal")
    };
    assert_eq!(
        [
            refuse(json!({ "contextWindow": 0 })),
            refuse(json!({ "contextWindow": 100, "maxOutputTokens": 101 })),
            refuse(json!({ "contextWindow": 100, "maxInputTokens": 0 })),
            refuse(json!({ "contextWindow": 100, "input": [] })),
            refuse(json!({ "contextWindow": 100, "cost": { "input": -1.0, "output": 1.0 } })),
        ],
        [
            "`models[0].contextWindow`: `0` holds no prompt; pass its tokens",
            "`models[0].maxOutputTokens`: `101` is not between 1 and the window of 100",
            "`models[0].maxInputTokens`: `0` is not between 1 and the window of 100",
            "`models[0].input`: is empty; pass at least `text`",
            "`models[0].cost.input`: `-1` is not a price in US dollars per million tokens",
        ]
    );
    let twice = json!({ "provider": "mine", "id": "x", "contextWindow": 100 });
    let refused = Catalogue::with_declared(vec![declaration(twice.clone()), declaration(twice)]);
    assert_eq!(
        refused.map(|_| ()).map_err(|error| error.to_string()),
        Err("`models[1]`: declares `x` a second time".into())
    );
}

#[test]
fn costs_are_exact() {
    let opus = builtin("anthropic", "claude-opus-4-6");
    let cost = |usage: TokenUsage, hour: u64| opus.cost_of(&usage, hour);
    assert_eq!(cost(TokenUsage::new(0, 0, 0, 0, 0), 0), Some(0.0));
    assert_eq!(cost(TokenUsage::new(1_000_000, 0, 0, 0, 0), 0), Some(5.0));
    assert_eq!(cost(TokenUsage::new(1_000, 500, 0, 0, 400), 0), Some(0.0175));
    assert_eq!(cost(TokenUsage::new(0, 0, 2_000_000, 1_000_000, 0), 0), Some(7.25));
    assert_eq!(cost(TokenUsage::new(0, 0, 0, 1_000_000, 0), 400_000), Some(7.75));
    assert_eq!(cost(TokenUsage::new(0, 0, 0, 1_000_000, 0), u64::MAX), Some(10.0));
    let gpt = builtin("openai", "gpt-4.1");
    assert_eq!(gpt.cost_of(&TokenUsage::new(1_000, 1_000, 1_000, 0, 0), 0), Some(0.0105));
}

#[test]
fn a_long_prompt_is_priced_by_its_tier_and_cached_tokens_count_for_the_length() {
    let gemini = builtin("google", "gemini-2.5-pro");
    let cost = |input, cached| gemini.cost_of(&TokenUsage::new(input, 1_000_000, cached, 0, 0), 0);
    assert_eq!(cost(200_000, 0), Some(10.25));
    assert_eq!(cost(200_001, 0), Some(15.500_002_5));
    assert_eq!(cost(100_000, 200_000), Some(15.3));
}

#[test]
fn a_price_that_is_unknown_makes_the_cost_unknown_only_where_it_is_needed() {
    let gpt = builtin("openai", "gpt-4.1");
    assert_eq!(gpt.cost.as_ref().and_then(|cost| cost.cache_write), None);
    assert_eq!(gpt.cost_of(&TokenUsage::new(1, 1, 0, 1, 0), 0), None);
    let open = builtin("open", "llama-3.3-70b-instruct");
    assert_eq!(open.cost_of(&TokenUsage::new(1, 1, 0, 0, 0), 0), None);
}

#[test]
fn names_are_split_into_base_date_and_route() {
    let apart = |id: &'static str| {
        let name = Name::of(id);
        (name.base, name.date, name.routed)
    };
    for plain in ["llama3.3:70b", "gpt-oss:20b", "deepseek-v3", "kimi-k2-0905", "-latest", "@1", ""]
    {
        assert_eq!(apart(plain), (plain, None, false));
    }
    assert_eq!(apart("a-20250514"), ("a", Some(20_250_514), false));
    assert_eq!(apart("a-2025-05-14:free"), ("a", Some(20_250_514), true));
    assert_eq!(apart("a-20250514-v1:0"), ("a", Some(20_250_514), false));
    assert_eq!(apart("a@default:nitro"), ("a", None, true));
    assert_eq!(apart("a-20251345"), ("a-20251345", None, false));
    assert_eq!(apart("a-12345678é"), ("a-12345678é", None, false));
}

proptest! {
    #[test]
    fn every_undated_model_is_found_under_any_dated_name(
        index in 0..BUILTIN.len(), year in 2023..2029_u32, month in 1..=12_u32, day in 1..=28_u32,
    ) {
        let model = &BUILTIN[index];
        let name = Name::of(&model.id);
        prop_assume!(name.base == model.id);
        for id in [
            format!("{}-{year}{month:02}{day:02}", model.id),
            format!("{}-{year}-{month:02}-{day:02}", model.id),
            format!("{}@{year}{month:02}{day:02}", model.id),
        ] {
            let found = Catalogue::builtin().resolve(&model.provider, &id).expect("a model");
            prop_assert_eq!(Name::of(&found.model.id).base, name.base);
        }
    }

    #[test]
    fn every_dated_model_is_found_under_its_undated_name(index in 0..BUILTIN.len()) {
        let model = &BUILTIN[index];
        let base = Name::of(&model.id).base;
        let found = Catalogue::builtin().resolve(&model.provider, base).expect("a model");
        prop_assert_eq!(Name::of(&found.model.id).base, base);
    }

    #[test]
    fn no_name_panics_the_lookup(provider in "\\PC{0,12}", id in "\\PC{0,24}") {
        let catalogue = Catalogue::builtin();
        let _ = catalogue.resolve(&provider, &id);
        let found = catalogue.resolve_for(&provider, Api::OpenaiChat, &id);
        prop_assert!(found.is_none_or(|found| found.matched != Matched::OtherProvider || found.model.cost.is_none()));
    }

    #[test]
    fn a_cost_grows_with_every_count_and_is_never_negative(
        input in 0..100_000_u64, output in 0..100_000_u64, cached in 0..50_000_u64, written in 0..50_000_u64, hour in 0..50_000_u64,
    ) {
        let model = builtin("anthropic", "claude-opus-4-6");
        let cost = |extra| model.cost_of(&TokenUsage::new(input + extra, output, cached, written, 0), hour);
        let (less, more) = (cost(0).expect("a cost"), cost(1).expect("a cost"));
        prop_assert!(less >= 0.0 && more > less);
    }
}
