# rag-gateway with the clients and suites of others: the package openai, the conformance suite and
# the inspector of the Model Context Protocol, and schemathesis. RAG_TEST_OPENAI names a Python that
# has the package, RAG_TEST_SCHEMATHESIS the program, and RAG_TEST_MCP a folder with node and the
# packages @modelcontextprotocol/conformance and @modelcontextprotocol/inspector. The part of one
# that is not named is skipped.
use strict;
use warnings;
use File::Basename qw(dirname);
use Test::More;
use RagCluster;
use RagGateway;
use RagLlm;

my $node = rag_node('gateway_clients', conf => "rag.allowed_private_hosts = '127.0.0.1'");
my $origin = RagLlm::origin('good');
$node->safe_psql(
	'postgres', qq{
	CREATE ROLE adm IN ROLE rag_admin;
	SELECT rag_create_model('good', 'chat', 'openai',
		'{"base_url": "$origin/v1", "model": "tiny"}');
	SELECT rag_grant_model('good', 'public');
	ALTER DATABASE postgres SET rag.chat_model = 'good';
	SELECT rag_add_document('Keys are rotated every 90 days.', 'keys');
});
# the suite of MCP sends no key
my $gateway = RagGateway->start($node, anonymous_role => 'adm');
my $key = $gateway->key('adm');

# Runs a program. Returns its exit status and its output.
sub run
{
	my (@command) = @_;
	open my $pipe, '-|', "@command 2>&1" or die $!;
	local $/;
	my $output = <$pipe> // '';
	close $pipe;
	return ($? >> 8, $output);
}

SKIP:
{
	skip 'RAG_TEST_OPENAI is not set', 1 if !$ENV{RAG_TEST_OPENAI};
	my $script = dirname(__FILE__) . '/../../clients/openai_calls.py';
	my ($status, $output) = run($ENV{RAG_TEST_OPENAI}, $script, $gateway->url . '/v1', $key);
	is($status, 0, 'the package openai') or diag($output);
}

SKIP:
{
	skip 'RAG_TEST_MCP is not set', 1 if !$ENV{RAG_TEST_MCP};
	my $bin = "$ENV{RAG_TEST_MCP}/node_modules/.bin";
	# The other scenarios want the tools, resources and prompts of a server for tests.
	for my $scenario (
		qw(server-initialize ping tools-list resources-list prompts-list dns-rebinding-protection))
	{
		my ($status, $output) = run("$bin/node", "$bin/conformance", 'server', '--url',
			$gateway->url . '/mcp', '--scenario', $scenario);
		is($status, 0, "conformance: $scenario") or diag($output);
	}
	my @inspector = ("$bin/node", "$bin/mcp-inspector", '--cli', $gateway->url . '/mcp',
		'--transport', 'http', '--method');
	my ($status, $output) = run(@inspector, 'tools/list');
	like($output, qr/"list_collections"/, 'the inspector lists the tools') or diag($status);
	my %arguments = (
		search => 'query=keys',
		fetch => "id=" . $node->safe_psql('postgres', 'SELECT document_id FROM rag.documents'),
		list_collections => '', list_sources => '', answer => 'query=keys?',
		add_document => 'uri=x content=x');
	for my $tool (sort keys %arguments)
	{
		my @given = map { ('--tool-arg', "'$_'") } split ' ', $arguments{$tool};
		(undef, $output) = run(@inspector, 'tools/call', '--tool-name', $tool, @given);
		like($output, qr/"structuredContent"/, "the inspector calls $tool") or diag($output);
	}
}

SKIP:
{
	skip 'RAG_TEST_SCHEMATHESIS is not set', 1 if !$ENV{RAG_TEST_SCHEMATHESIS};
	my ($status, $output) = run(
		$ENV{RAG_TEST_SCHEMATHESIS}, 'run', $gateway->url . '/openapi.json',
		'--header', "'Authorization: Bearer $key'", '--checks',
		'not_a_server_error,status_code_conformance,content_type_conformance',
		'--exclude-path', '/v1/events', '--max-examples', $ENV{RAG_TEST_CASES} // 20,
		'--phases', 'examples,coverage,fuzzing', '--no-color', '--request-timeout', 60,
		'--seed', $ENV{RAG_TEST_SEED} // 1);
	is($status, 0, 'schemathesis') or diag(substr $output, -20000);
}
is($gateway->stop, 0, 'the program ends with status 0');
done_testing();
