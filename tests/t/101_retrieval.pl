# The requests of Wegent, Dify and agent_core, as their documents and clients have them, over the
# documents of a folder, a git repository and a table, on a primary and a standby.
use strict;
use warnings;
use utf8;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use Test::More;
use RagCluster;
use RagGit;

my $node =
  rag_node('retrieval', conf => "wal_level = replica\nmax_wal_senders = 5\nhot_standby = on\n");
my $json = JSON::PP->new->canonical->ascii;
my $server = $node;

# The answer of a function to a request.
sub answer
{
	my ($function, $request) = @_;
	$request = $json->encode($request) if ref $request;
	return $json->decode(
		$server->safe_psql('postgres', "SELECT $function(\$\$$request\$\$::jsonb)"));
}

sub sorted { return join ' ', sort @_ }

sub files { return sorted(map { $_->{source_file} } @{ $_[0]{records} }) }

# -- a knowledge base with documents of three sources
# ----------------------------------------

my $folder = temp_folder();
write_file("$folder/example.md", <<'MD');
---
title: What Dify is
category: tech
tags: [docker, production]
year: 2021
source_url: https://docs.example.com/dify
---
# Dify

Dify is a platform on which applications with language models are built.

## Deployment

It is deployed with containers.
MD
write_file("$folder/lunch.txt", "Lunch is served at noon in the canteen.\n");

my $repository = git_repository();
$repository->write('docs/compose.md', <<'MD');
---
category: tech
tags: [docker]
year: "2019"
---
# Compose

Dify starts all of its containers with one command of Docker Compose.
MD
$repository->write('docs/tea.md', "# Tea\n\nTea is brewed with boiling water.\n");
my $commit = $repository->commit;
my $path = $repository->path;

$node->safe_psql(
	'postgres', qq{
	CREATE TABLE articles (id int PRIMARY KEY, title text, body text, category text, tags text[],
	year int);
	INSERT INTO articles VALUES
	(1, 'Dify in production', 'Dify answers questions of customers.', 'tech',
	'{production,docker}', 2024),
	(2, 'Bread', 'Bread is baked in the morning.', 'kitchen', NULL, 2024),
	(3, NULL, 'An old note about Dify.', 'tech', NULL, NULL);
	SELECT rag_create_collection('kb_123', external_id => 'AAA-BBB-CCC');
	SELECT rag_create_source('files', 'folder', '{"path": "$folder"}', 'kb_123');
	SELECT rag_create_source('code', 'git',
	'{"repositoryURL": "$path", "branch": "main", "paths": ["docs/"]}', 'kb_123');
	SELECT rag_create_source('rows', 'table', '{"relation": "articles", "contentColumns": ["body"],
	"titleColumn": "title", "metadataColumns": ["category", "tags", "year"]}', 'kb_123')}
);
sync_ok($node, $_) for qw(files code rows);

# -- Wegent
# ----------------------------------------

# The request of the Retriever's design, with a threshold for this model.
my $seed = <<'JSON';
{
  "knowledge_id": "AAA-BBB-CCC",
  "query": "What is Dify?",
  "retrieval_setting": {
    "top_k": 5,
    "score_threshold": 0.1,
    "retrieval_mode": "hybrid",
    "vector_weight": 0.7,
    "keyword_weight": 0.3
  },
  "metadata_condition": {
    "operator": "and",
    "conditions": [
      {"key": "category", "operator": "eq", "value": "tech"},
      {"key": "year", "operator": "gte", "value": 2020}
    ]
  }
}
JSON

sub test_wegent
{
	my $found = answer('rag_retrieve', $seed);
	is(files($found), '1 example.md', 'the condition selects documents of a folder and a table');
	is( sorted(keys %$found),
		sorted(qw(records query knowledge_id total retrieval_mode)),
		'the answer has the fields of the design');
	is($found->{query}, 'What is Dify?', 'the query is repeated');
	is($found->{knowledge_id}, 'AAA-BBB-CCC', 'and so is the knowledge base');
	is($found->{total}, scalar @{ $found->{records} }, 'the total is the number of records');
	is($found->{retrieval_mode}, 'hybrid', 'the mode that was used is named');
	my $stop_words = answer('rag_retrieve', $seed =~ s/What is Dify\?/is it the?/r);
	is($stop_words->{retrieval_mode}, 'vector', 'a query of stop words is answered by the vector');
	like($stop_words->{degraded}, qr/no words/, 'and the answer says why');
	my @scores = map { $_->{score} } @{ $found->{records} };
	is_deeply(\@scores, [ sort { $b <=> $a } @scores ], 'the best record is the first');

	my ($file) = grep { $_->{source_file} eq 'example.md' } @{ $found->{records} };
	is( sorted(keys %$file),
		sorted(qw(doc_ref chunk_index source_file content score metadata)),
		'a record has the fields of the design');
	my $metadata = $file->{metadata};
	is($metadata->{year}, 2021, 'the metadata has what the document says of itself');
	is($metadata->{source}, 'files', 'the metadata has the source');
	is_deeply($metadata->{tags}, [qw(docker production)], 'the metadata has the tags');
	is($metadata->{document_id}, $file->{doc_ref}, 'the metadata has the id of the document');
	is_deeply($metadata->{heading_path}, ['Dify'], 'the metadata has the headings')
	  or diag explain $metadata;
	like($metadata->{$_}, qr/^\d{4}-\d\d-\d\dT/, "$_ is a time in ISO 8601")
	  for qw(indexed_at fetched_at);

	my $everything = answer('rag_retrieve',
		{ knowledge_id => 'kb_123', query => 'Dify', retrieval_setting => { top_k => 20 } });
	is( files($everything),
		'1 2 3 compose.md example.md lunch.txt tea.md',
		'without a condition all documents are found');
	ok(!exists $everything->{degraded}, 'no mode was asked for, so none is missing');
	my @keys = qw(document_id chunk_id uri title source category tags knowledge_id document_type
	  start_index lines page heading_path indexed_at fetched_at);
	for my $record (@{ $everything->{records} })
	{
		my @missing = grep { !exists $record->{metadata}{$_} } @keys;
		is("@missing", '', "the metadata of $record->{source_file} has all keys");
	}
	my %of = map { $_->{source_file} => $_->{metadata} } @{ $everything->{records} };
	is($of{'compose.md'}{commit}, $commit, 'a file of a repository has its commit');
	is($of{1}{document_type} // '', $of{2}{document_type}, 'rows have a type of document');
	is_deeply($of{2}{tags}, [], 'a document without tags has an empty list');
	is($of{2}{category}, 'kitchen', 'a column of the table is the category');

	my %selected = (
		'{"source": "code"}' => 'compose.md tea.md',
		'{"key": "year", "operator": "lt", "value": 2020}' => 'compose.md',
		'{"tags": ["docker", "production"]}' => '1 example.md',
		'{"operator": "or", "conditions": [{"key": "tags", "operator": "in", "value": ["docker"]},
		{"key": "source_file", "operator": "eq", "value": "lunch.txt"}]}' =>
		  '1 compose.md example.md lunch.txt',);
	for my $condition (sort keys %selected)
	{
		my $request = qq({"knowledge_id": "kb_123", "query": "a", "retrieval_setting":
		{"top_k": 20}, "metadata_condition": $condition});
		is(files(answer('rag_retrieve', $request)), $selected{$condition},
			"documents are found by $condition");
	}
	return;
}

# -- Dify
# ----------------------------------------

# What Dify's client sends: ExternalDatasetService.fetch_external_knowledge_retrieval.
sub dify
{
	my ($condition, %change) = @_;
	return answer(
		'rag_dify_retrieval',
		{
			retrieval_setting => { top_k => 20, score_threshold => 0.0 },
			query => 'What is Dify?',
			knowledge_id => 'AAA-BBB-CCC',
			metadata_condition => $condition,
			%change
		});
}

sub uris { return sorted(map { $_->{metadata}{uri} =~ s{.*[/#]}{}r } @{ $_[0]{records} }) }

sub one
{
	my ($name, $operator, $value) = @_;
	return {
		logical_operator => 'and',
		conditions => [ { name => $name, comparison_operator => $operator, value => $value } ]
	};
}

sub test_dify
{
	my $found = dify(undef);
	is(uris($found), '1 2 3 compose.md example.md lunch.txt tea.md',
		'without a condition all documents are found');
	for my $record (@{ $found->{records} })
	{
		is(sorted(keys %$record), 'content metadata score title', 'a record has four fields');
		ok(defined $record->{title} && !ref $record->{title}, 'its title is a text');
		is(ref $record->{metadata}, 'HASH', 'its metadata is an object');
		ok($record->{metadata}{document_id}, 'its metadata has the id of the document');
	}
	my ($untitled) = grep { $_->{metadata}{uri} =~ m{/3$} } @{ $found->{records} };
	is($untitled->{title}, 'articles 3', 'also that of a row without one');

	is( scalar @{ dify(undef, retrieval_setting => { top_k => undef, score_threshold => 0 })
		  ->{records} },
		5, 'without a number of records there are five');
	is( uris(dify({ logical_operator => 'and', conditions => undef })),
		uris($found), 'conditions may be null');
	is(uris(dify(one('year', 'is', undef))), uris($found), 'a condition without value is skipped');
	my @cases = (
		[ one(['category'], 'is', 'tech'), '1 3 compose.md example.md' ],
		[ one('category', 'is not', 'tech'), '2 lunch.txt tea.md' ],
		[ one('category', 'in', 'tech, kitchen'), '1 2 3 compose.md example.md' ],
		[ one('category', 'not in', [qw(tech kitchen)]), 'lunch.txt tea.md' ],
		[ one('year', '≥', '2021'), '1 2 example.md' ],
		[ one('year', '<', 2021), 'compose.md' ],
		[ one('year', '=', '2019'), 'compose.md' ],
		[ one('year', 'is', '2021'), 'example.md' ],
		[ one('year', 'empty', undef), '3 lunch.txt tea.md' ],
		[ one('tags', 'contains', 'production'), '1 example.md' ],
		[ one('title', 'start with', 'Dify'), '1' ],
		[ one('uri', 'end with', '.txt'), 'lunch.txt' ],);
	is(uris(dify($_->[0])), $_->[1], $json->encode($_->[0]{conditions}[0])) for @cases;

	is_deeply(
		dify(undef, knowledge_id => 'nowhere'),
		{ error_code => 2001, error_msg => 'knowledge base "nowhere" does not exist' },
		'an unknown knowledge base has code 2001');
	return;
}

# The HTTP status that PostgREST sends: it reads the setting in the statement that calls the
# function, in a read-only transaction because the function is STABLE.
sub status
{
	my ($request) = @_;
	return $server->safe_psql(
		'postgres', qq{
		BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;
		WITH source AS (SELECT rag_dify_retrieval AS scalar
			FROM rag_dify_retrieval(\$\$$request\$\$::jsonb))
		SELECT count(*) || ' ' || coalesce(nullif(current_setting('response.status', true), ''),
			'200') FROM (SELECT * FROM source) AS t;
		COMMIT});
}

sub test_status
{
	is(status('{"knowledge_id": "kb_123", "query": "tea"}'), '1 200',
		'a request that finds records has the status 200');
	is(status('{"knowledge_id": "nowhere", "query": "tea"}'), '1 404',
		'an unknown knowledge base has the status 404');
	is(status('{"knowledge_id": "kb_123", "query": ""}'), '1 400',
		'an invalid request has the status 400');
	return;
}

# -- agent_core
# ----------------------------------------

write_file("$folder/items/config.md",
	"# Configuration Guide\n\nDatabase configuration is managed via environment variables.\n");
write_file("$folder/items/deploy.md", "# Deployment\n\nDeployment steps use containers.\n");
$node->safe_psql(
	'postgres', qq{
	SELECT rag_index_knowledge(3, title => 'Configuration Guide',
	uri => 'file://$folder/items/config.md',
	category => 'Engineering', tags => 'docker, production');
	SELECT rag_index_knowledge(7, title => 'Deployment', uri => '$folder/items/deploy.md',
	category => 'Engineering/Security', tags => 'docker')}
);

sub items
{
	return join ' ', sort { $a <=> $b } map { $_->{knowledge_id} } @{ $_[0]{results} };
}

sub test_agent_core
{
	my $found = answer('rag_knowledge_search', <<'JSON');
{
  "query": "How to configure the database connection?",
  "n_results": 5,
  "category": "Engineering"
}
JSON
	is(sorted(keys %$found), 'query results total_results', 'the answer has three fields');
	is($found->{query}, 'How to configure the database connection?', 'the query is repeated');
	is($found->{total_results}, 1, 'one document has the category');
	my $result = $found->{results}[0];
	is( sorted(keys %$result),
		sorted(qw(content knowledge_id title uri score chunk_index)),
		'a result has the fields of the service');
	is($result->{knowledge_id}, 3, 'the item is named');
	is($result->{title}, 'Configuration Guide', 'the title of the item is named');
	my %selected = (
		'{"query": "authentication", "category": "Engineering/Security"}' => '7',
		'{"query": "deployment steps", "tags": ["docker", "production"]}' => '3',
		'{"query": "deployment steps", "tags": ["docker", "production"], "tags_match": "any"}' =>
		  '3 7',
		'{"query": "error handling", "knowledge_ids": [1, 3, 7]}' => '3 7',
		'{"query": "error handling", "knowledge_ids": [1]}' => '',);
	is(items(answer('rag_knowledge_search', $_)), $selected{$_}, $_) for sort keys %selected;
	is( $server->safe_psql('postgres',
			"SELECT rag_knowledge_search(q => 'database configuration', n => 5,
			category => 'Engineering') #>> '{results,0,knowledge_id}'"),
		'3', 'the form for GET finds it, too');
	return;
}

my %tests = (
	'rag_retrieve' => \&test_wegent,
	'rag_dify_retrieval' => \&test_dify,
	'HTTP status' => \&test_status,
	'rag_knowledge_search' => \&test_agent_core,);
subtest $_ => $tests{$_} for sort keys %tests;

$node->backup('base');
$server = PostgreSQL::Test::Cluster->new('retrieval_standby');
$server->init_from_backup($node, 'base', has_streaming => 1);
$server->start;
$node->wait_for_catchup($server);
subtest "$_ on a standby" => $tests{$_} for sort keys %tests;
$server->stop;
$node->stop;

done_testing();
