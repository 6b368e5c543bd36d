"""Commands about resource providers: inventories, traits, aggregates, trees and usages."""
