# Pages of both kinds of indexes, as released versions have written them, can be read, or are
# refused with the remedy REINDEX.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagTest ();
use RagUpgrade;

use constant PAGE_BYTES => 8192;

# The pages have no checksums.
my $has_checksums = `pg_config --version` =~ /PostgreSQL (\d+)/ && $1 >= 18;
my $node = RagTest::new_node('formats', initdb => $has_checksums ? ['--no-data-checksums'] : []);
$node->start;
sub sql { return $node->safe_psql('postgres', @_) }

sql('CREATE EXTENSION rag');
my @indexes = qw(item_vector item_body);
my $fill = slurp_file("$ENV{RAG_TEST_FILES}/upgrade/fill.sql");
my ($items) = $fill =~ /^(CREATE TABLE item .*)/ms or die 'fill.sql has no table item';
my $by_index = q{SET enable_seqscan = off; SET enable_sort = off};
my %query = (
	item_vector => q{SELECT id, (vector <-> '[0.5,0.5,1]')::numeric(10, 5) FROM item
		ORDER BY vector <-> '[0.5,0.5,1]' LIMIT 5},
	item_body => q{SELECT id, (body <@> 'text 77')::numeric(10, 5) FROM item
		ORDER BY body <@> 'text 77' LIMIT 3});

for my $release (@releases)
{
	sql('DROP TABLE IF EXISTS item');
	sql($items);
	my %before = map { $_ => sql("$by_index; $query{$_}") } @indexes;
	my %path = map { $_ => sql("SELECT pg_relation_filepath('$_')") } @indexes;
	sql('CHECKPOINT');
	$node->stop;
	for my $index (@indexes)
	{
		my $pages = kept_of($release, $index);
		# another cluster wrote them: what it logged is unknown here
		substr $pages, $_ * PAGE_BYTES, 8, "\0" x 8 for 0 .. length($pages) / PAGE_BYTES - 1;
		open my $file, '>:raw', $node->data_dir . "/$path{$index}" or die "$index: $!";
		print $file $pages;
		close $file or die "$index: $!";
	}
	$node->start;
	for my $index (@indexes)
	{
		my ($out, $err) = ('', '');
		$node->psql(
			'postgres', "$by_index; $query{$index}",
			stdout => \$out, stderr => \$err, extra_params => ['--set=VERBOSITY=verbose']);
		if ($err =~ /0A000: index "$index" has an unsupported format version/)
		{
			like($err, qr/HINT:  Use REINDEX INDEX $index /,
				"$release: $index has another format, and the error has the remedy");
			sql("REINDEX INDEX $index");
			is(sql("$by_index; $query{$index}"), $before{$index}, "$release: $index is rebuilt");
		}
		else
		{
			is($err, '', "$release: $index is read");
			is($out, $before{$index}, "$release: $index gives the same answer");
			is(sql("SELECT count(*) FROM rag_check_index('$index')"),
				'0', "$release: rag_check_index finds no problem in $index");
		}
	}
	sql(q{INSERT INTO item VALUES (1001, 'a new pretzel', '[9,9,9]'); DELETE FROM item WHERE id < 9;
		VACUUM item});
	is( sql("$by_index; SELECT id FROM item ORDER BY vector <-> '[9,9,8]' LIMIT 1"),
		'1001', "$release: item_vector can be written");
	is( sql("$by_index; SELECT id FROM item ORDER BY body <@> 'pretzel' LIMIT 1"),
		'1001', "$release: item_body can be written");
}

$node->stop;
done_testing();
