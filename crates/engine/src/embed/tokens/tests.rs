use proptest::prelude::*;
use rag_document::{ExtractedDocument, Structure};
use rag_protocol::ingest::{Splitting, Title, Unit};
use serde_json::json;

use super::*;

/// A small tokenizer like BERT's.
fn bert() -> Tokenizer {
    let vocabulary = [
        "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##a", "##b", "ab", "##ab", ".", "-", "e",
        "中", "!",
    ];
    let vocabulary: HashMap<&str, usize> = vocabulary
        .iter()
        .enumerate()
        .map(|(id, token)| (*token, id))
        .collect();
    let added = |id: usize, content: &str| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": content == "[MASK]",
            "rstrip": false,
               "normalized": false, "special": true})
    };
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [added(0, "[UNK]"), added(1, "[CLS]"), added(2, "[SEP]"), added(3,
            "[MASK]")],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                       "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocabulary}
    });
    Tokenizer::from_bytes(json.to_string()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None,
        ..Default::default() })]

    #[test]
    fn the_tokens_of_a_text_are_those_of_its_words(
        texts in prop::collection::vec(prop_oneof![
            "[abAB.é中 \n\t\r\u{85}\u{A0}\u{200B}\u{2028}\u{B}\u{C}\u{301}-]{0,40}",
            "([ab]{1,5}|\\[MASK\\]|\\[SEP\\]| |\n|[.!]){0,20}",
            any::<String>(),
        ], 1..4)
    ) {
        let tokenizer = bert();
        let words = Words::of(&tokenizer).unwrap();
        prop_assert!(words.cuts_at_marks);
        for text in texts {
            let whole = tokenizer.encode_fast(text.as_str(), false).unwrap().len();
            prop_assert_eq!(words.count(&text, &tokenizer), Some(whole), "{:?}", text);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None,
        ..Default::default() })]

    /// The model reads the same tokens, however little of the text is tokenized.
    #[test]
    fn a_text_that_is_read_in_pieces_has_the_same_first_tokens(
        text in prop_oneof![
            "([abAB.é中-]{1,12}|\\[MASK\\]|\u{85}|\u{A0}|\n\n| |\t|[.!] ){0,80}",
            any::<String>(),
        ],
        (limit, piece) in (1usize..40, 1usize..60),
    ) {
        let tokenizer = bert();
        let words = Words::of(&tokenizer);
        let counter = ModelTokenizer { tokenizer, special_tokens: 0, limit, json: Arc::default(),
            words };
        let (head, is_whole) = counter.head_by_words(&text, piece, &|| false).unwrap().unwrap();
        let whole = encode(&counter.tokenizer, &text).unwrap();
        prop_assert!(!is_whole || head.len() == whole.len());
        let read = whole.len().min(limit);
        prop_assert_eq!(&head.get_ids()[..read], &whole.get_ids()[..read], "{:?}", text);
    }
}

#[test]
fn a_long_text_costs_no_more_than_what_is_read_of_it() {
    let tokenizer = bert();
    let words = Words::of(&tokenizer);
    let counter = ModelTokenizer {
        tokenizer,
        special_tokens: 0,
        limit: 8,
        json: Arc::default(),
        words,
    };
    for text in [
        "a.".repeat(MAX_TEXT / 2),
        "a ".repeat(MAX_TEXT / 2),
        "a".repeat(MAX_TEXT),
    ] {
        let tokens = counter.tokenize(&text, &|| false).unwrap().unwrap();
        assert!(tokens.ids.len() <= 8);
        let whole = encode(&counter.tokenizer, start_of(&text, 4096)).unwrap();
        assert_eq!(tokens.ids, whole.get_ids()[..whole.len().min(8)]);
    }
    assert_eq!(counter.tokenize("a b", &|| true).unwrap(), None);
}

/// Counts every text as a whole.
struct Whole<'a>(&'a ModelTokenizer);

impl TokenCounter for Whole<'_> {
    fn count(&self, text: &str) -> usize {
        encode(&self.0.tokenizer, text).unwrap().len() + self.0.special_tokens
    }

    fn limit(&self) -> usize {
        self.0.limit
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None,
        ..Default::default() })]

    #[test]
    fn words_counted_once_give_the_same_chunks(
        text in "([abAB.é中-]{1,12}|[ab]{1,5}|\\[MASK\\]|\u{85}|\u{A0}|\n\n| |\n|[.!] ){0,200}",
        own in any::<bool>(),
        (chunk_size, chunk_overlap) in (4usize..60).prop_flat_map(|size| (Just(size), 0..size)),
        unit in prop::sample::select(Unit::ALL.to_vec()),
    ) {
        let tokenizer = bert();
        let words = Words::of(&tokenizer);
        let counter = ModelTokenizer { tokenizer, special_tokens: 0, limit: 24,
            json: Arc::default(), words };
        let extracted = ExtractedDocument::new(text, Title { text: "a b-a".into(), own },
            Structure::Prose);
        let splitting = Splitting { chunk_size, chunk_overlap, unit };
        let chunks = rag_document::split(&extracted, &splitting, &counter).unwrap();
        prop_assert_eq!(chunks, rag_document::split(&extracted, &splitting,
            &Whole(&counter)).unwrap());
    }
}
